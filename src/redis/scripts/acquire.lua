-- acquire, acquire_plain
--   KEYS   lock key, index key, fence key
--   shared TTL in ms
--   ARGV   the user's key, escaped for JSON (plain: none, it is taken from the lock key, after the
--          prefix)
--   reply  the fence, a number | locked: 0, or minus the remaining time in ms | an error, and then
--          nothing is locked

-- A peer's lock may have an expiry that is too large for an integer of Redis.
local longest_wait_ms = 100000000000

-- The text between id and key in locks with the last TTL. Most locks of a call have the same TTL.
local times, ttl_of_times

-- Whether no lock key of the current group existed when the group began. One EXISTS checks all of
-- them: a check of each costs as much as writing a lock.
local all_were_free = false

local function acquire(lock_key, index_key, fence_key, ttl_ms, json_key)
  local stored = not all_were_free and call('GET', lock_key)
  if stored then
    local read = on_demand()
    local _, expires_at_ms = read.owner_and_expiry(stored)
    if read.is_live(expires_at_ms) then
      return math.max(math.min(now_ms - expires_at_ms, 0), -longest_wait_ms)
    end
    read.prepare_takeover(stored, fence_key, json_key)
  end
  local fence = call('INCR', fence_key)
  if fence > 0 and fence <= last_fence then
    if ttl_ms ~= ttl_of_times then
      times = format('","expiresAtMs":%d,"acquiredAtMs":%d,"key":"', now_ms + ttl_ms, now_ms)
      ttl_of_times = ttl_ms
    end
    local lock = '{"lockId":"' .. sub(index_key, -22) .. times .. json_key
      .. format('","fence":"%015d"}', fence)
    -- The index is written first: the Redis user may have the permission to write only one of the
    -- two keys, and an index without its lock locks nothing.
    call('SET', index_key, lock_key, 'PX', ttl_ms)
    local written
    if all_were_free then
      written = redis.pcall('SET', lock_key, lock, 'PX', ttl_ms, 'NX')
    else
      written = redis.pcall('SET', lock_key, lock, 'PX', ttl_ms)
    end
    if written and written.ok then return fence end
    redis.pcall('DEL', index_key)
    if written then error(written) end
  elseif not all_were_free then
    on_demand().refuse_counter(fence_key, fence)
  end
  -- Another operation of the group may have locked the same key.
  redis.pcall('DECR', fence_key)
  all_were_free = false
  return acquire(lock_key, index_key, fence_key, ttl_ms, json_key)
end
