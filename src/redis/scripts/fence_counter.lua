-- Fence counters: raising them, and errors of counters that cannot be raised.

local counter_at_end = {err = 'FENCEEND the fence counter has reached its end'}
local not_a_counter = {err = 'FOREIGNVALUE the fence counter holds a value that is not a counter'}

-- Undoes INCR, so that an operation that fails has written nothing.
local function refuse_counter(fence_key, fence)
  redis.pcall('DECR', fence_key)
  error(fence > 0 and counter_at_end or not_a_counter)
end

-- Raises a counter to at least this value, and never lowers it. The next fence is then greater.
local function raise_to_at_least(fence_key, minimum)
  if minimum >= last_fence then error(counter_at_end) end
  local counter = call('GET', fence_key) or '0'
  if counter ~= '0' and not find(counter, '^[1-9]%d*$') then error(not_a_counter) end
  if tonumber(counter) < minimum then call('SET', fence_key, format('%d', minimum)) end
end

-- Called before the lock of this key replaces an expired one. If the stored value is not a lock of
-- the same key, throws without having written anything. The counter is raised to the fence of the
-- expired lock, so that the next fence is greater even if the counter was lost.
local function prepare_takeover(stored, fence_key, json_key)
  local lock = decoded_lock(stored)
  if type(lock.key) == 'string' and lock.key ~= cjson.decode('["' .. json_key .. '"]')[1] then
    error({err = 'OVERLAP the lock of another key is stored in the place of this one'})
  end
  local fence = tostring(lock.fence)
  if find(fence, '^%d+$') then raise_to_at_least(fence_key, tonumber(fence)) end
end
