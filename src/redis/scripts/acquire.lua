-- acquire
--   KEYS  lock key, index key, fence key
--   ARGV  the value's beginning, TTL in ms, what comes in it between the times and the fence
--   reply the fence, a number | locked: 0, or less by the ms until it ends by itself | an error,
--         and then nothing is locked

-- Counters with no more digits are far from their end.
local digits_of_usual_fences = 14
-- A peer's lock may be said to end at a time that is no integer of Redis any more.
local longest_wait_ms = 100000000000

-- The times in a lock of this TTL. Most locks of a call have the same.
local times_by_ttl = {}

local function acquire(lock_key, index_key, fence_key, beginning, ttl_ms, ending)
  local stored = call('GET', lock_key)
  if stored then
    local read = on_demand()
    local _, expires_at_ms = read.owner_and_expiry(stored)
    if read.is_live(expires_at_ms) then
      return math.max(math.min(now_ms - expires_at_ms, 0), -longest_wait_ms)
    end
    -- Only a lock is ever taken over, not what merely looks like one at a glance.
    read.decoded_lock(stored)
  end
  -- Before anything is written, since a script's error does not undo what came before it. What is
  -- no number at all, INCR refuses.
  local counter = call('GET', fence_key)
  if counter and (#counter > digits_of_usual_fences or counter < '0') then
    on_demand().check_counter(counter)
  end
  local times = times_by_ttl[ttl_ms]
  if not times then
    times = format('%d', now_ms + ttl_ms) .. ',"acquiredAtMs":' .. now_text
    times_by_ttl[ttl_ms] = times
  end
  local fence = call('INCR', fence_key)
  call('SET', lock_key, beginning .. times .. ending .. format('%015d"}', fence), 'PX', ttl_ms)
  call('SET', index_key, lock_key, 'PX', ttl_ms)
  return fence
end
