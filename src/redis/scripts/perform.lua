-- Performs one operation after another. Those of the same kind come in groups: in ARGV the name of
-- the kind, what all of the group share ('' if nothing), and how many they are; then, as in KEYS,
-- what each takes for itself, in their order. The reply is a list: the server's time in ms, which
-- granted locks and extensions count from, then one element for each operation. Numbers, because
-- they cost the least to make into a reply. An operation that fails does not disturb the others.

local keys, arguments = KEYS, ARGV
local replies = {now_ms}
-- How far we are. An operation counts from its beginning, so that the next one is found also if it
-- fails.
local count, k, a = 1, 0, 0
local name, shared
local left_of_group = 0

local function perform_those_left()
  local last = #arguments
  while true do
    if left_of_group == 0 then
      if a >= last then return end
      name, shared, left_of_group = arguments[a + 1], arguments[a + 2], arguments[a + 3] + 0
      a = a + 3
    end
    left_of_group = left_of_group - 1
    count = count + 1
    if name == 'acquire_plain' then
      k = k + 3
      local lock_key, index_key = keys[k - 2], keys[k - 1]
      -- Behind the prefix, an index key has "id:" and the lock id: 25 characters.
      local key = sub(lock_key, #index_key - 24)
      replies[count] = acquire(lock_key, index_key, keys[k], shared, key)
    elseif name == 'release_known' then
      k = k + 2
      replies[count] = release(keys[k - 1], keys[k])
    elseif name == 'acquire' then
      k, a = k + 3, a + 1
      replies[count] = acquire(keys[k - 2], keys[k - 1], keys[k], shared, arguments[a])
    elseif name == 'extend_known' then
      k = k + 2
      replies[count] = on_demand().extend(keys[k - 1], keys[k], shared)
    elseif name == 'release' then
      k = k + 1
      replies[count] = release(nil, keys[k])
    elseif name == 'extend' then
      k = k + 1
      replies[count] = on_demand().extend(nil, keys[k], shared)
    elseif name == 'is_locked' then
      k = k + 1
      replies[count] = on_demand().is_locked(keys[k], shared)
    elseif name == 'lookup_key' then
      k = k + 1
      replies[count] = on_demand().lookup_key(keys[k])
    elseif name == 'lookup_id' then
      k = k + 1
      replies[count] = on_demand().lookup_id(keys[k])
    else
      a, left_of_group = last, 0
      replies = redis.error_reply('ERR unknown operation')
    end
  end
end

while left_of_group > 0 or a < #arguments do
  local succeeded, why = pcall(perform_those_left)
  if not succeeded then
    replies[count] = {err = type(why) == 'table' and why.err or tostring(why)}
  end
end
return replies
