-- Main loop: performs one operation after another. Operations of the same kind form groups. In ARGV
-- a group has the name of the kind, the argument shared by the group ('' if none), the number of
-- operations, and the own arguments of each in their order; in KEYS the first key of each, then the
-- second of each, and so on. The reply is a list: the server's time in ms, from which the TTLs of
-- granted locks and extensions count, then one element for each operation. Elements are numbers if
-- possible, which are the cheapest replies. An operation that fails does not affect the others.

local keys, arguments = KEYS, ARGV
local replies = {now_ms}
-- The current group and the progress in it. An operation is counted when it begins, so that the
-- loop continues with the next one if it fails.
local name, shared
local size, keys_of_each, done = 0, 0, 0
local k, a, count = 0, 0, 1

local function begin_group()
  k = k + size * keys_of_each
  name, shared, size, done = arguments[a + 1], arguments[a + 2], arguments[a + 3] + 0, 0
  a = a + 3
  if name == 'acquire_plain' or name == 'acquire' then
    keys_of_each = 3
    -- If the Redis user may not use EXISTS, each operation checks its own key.
    all_were_free = size > 1 and redis.pcall('EXISTS', unpack(keys, k + 1, k + size)) == 0
  elseif name == 'release_known' then
    keys_of_each = 2
    if size > 1 and release_together(size, k, replies, count) then
      done, count = size, count + size
    end
  elseif name == 'extend_known' then
    keys_of_each = 2
  else
    keys_of_each = 1
  end
end

local function perform_those_left()
  local last = #arguments
  while true do
    if done == size then
      if a >= last then return end
      begin_group()
    else
      done, count = done + 1, count + 1
      local key = keys[k + done]
      if name == 'acquire_plain' then
        local index_key = keys[k + size + done]
        -- After the prefix, an index key has "id:" and the lock id: 25 characters.
        replies[count] = acquire(key, index_key, keys[k + 2 * size + done], shared,
          sub(key, #index_key - 24))
      elseif name == 'release_known' then
        replies[count] = release(key, keys[k + size + done])
      elseif name == 'acquire' then
        a = a + 1
        replies[count] = acquire(key, keys[k + size + done], keys[k + 2 * size + done], shared,
          arguments[a])
      elseif name == 'extend_known' then
        replies[count] = on_demand().extend(key, keys[k + size + done], shared)
      elseif name == 'release' then
        replies[count] = release(nil, key)
      elseif name == 'extend' then
        replies[count] = on_demand().extend(nil, key, shared)
      elseif name == 'is_locked' then
        replies[count] = on_demand().is_locked(key, shared)
      elseif name == 'lookup_key' then
        replies[count] = on_demand().lookup_key(key)
      elseif name == 'lookup_id' then
        replies[count] = on_demand().lookup_id(key)
      else
        a, done = last, size
        replies = redis.error_reply('ERR unknown operation')
      end
    end
  end
end

while done < size or a < #arguments do
  local succeeded, why = pcall(perform_those_left)
  if not succeeded then
    replies[count] = {err = type(why) == 'table' and why.err or tostring(why)}
  end
end
return replies
