-- acquire
--   KEYS  lock key, index key, fence key
--   ARGV  lock id, TTL in ms, the user's key as a JSON string with its quotes
--   reply the fence, a number | locked: 0, or less by the ms until it ends by itself | an error,
--         and then nothing is locked

local last_fence = 900000000000000
-- A peer's lock may be said to end at a time that is no integer of Redis any more.
local longest_wait_ms = 100000000000

local function refuse_counter(counter)
  error({err = string.match(counter, '^%d+$') and 'FENCEEND the fence counter has reached its end'
    or 'FOREIGNVALUE the fence counter holds a value that is not a counter'})
end

local function acquire(lock_key, index_key, fence_key, id, ttl_ms, json_key)
  local stored = redis.call('GET', lock_key)
  if stored then
    local _, expires_at_ms = owner_and_expiry(stored)
    if is_live(expires_at_ms) then
      return math.max(math.min(now_ms - expires_at_ms, 0), -longest_wait_ms)
    end
    -- Only a lock is ever taken over, not what merely looks like one at a glance.
    decoded_lock(stored)
  end
  -- Before anything is written, since a script's error does not undo what came before it.
  local counter = redis.call('GET', fence_key)
  if counter then
    local value = tonumber(counter)
    if not value or value < 0 or value >= last_fence then refuse_counter(counter) end
  end
  local fence = redis.call('INCR', fence_key)
  redis.call('SET', lock_key, before_id .. id .. after_id .. expiry_text(ttl_ms)
    .. after_expiry .. now_text .. ',"key":' .. json_key .. before_fence
    .. string.format('%015d"}', fence), 'PX', ttl_ms)
  redis.call('SET', index_key, lock_key, 'PX', ttl_ms)
  return fence
end
