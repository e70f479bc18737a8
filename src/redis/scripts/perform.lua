-- Performs one operation after another. KEYS and ARGV hold what each operation takes, in their
-- order; in ARGV its name comes first. The reply is a list: the server's time in ms, which granted
-- locks and extensions count from, then one element for each operation. Numbers, because they cost
-- the least to make into a reply. An operation that fails does not disturb the others.

local keys, arguments = KEYS, ARGV
local replies = {now_ms}
-- How far we are. An operation counts from its beginning, so that the next one is found also if it
-- fails.
local count, k, a = 1, 0, 0

local function perform_those_left()
  local last = #arguments
  while a < last do
    local name = arguments[a + 1]
    count = count + 1
    if name == 'acquire' then
      k, a = k + 3, a + 4
      replies[count] = acquire(keys[k - 2], keys[k - 1], keys[k],
        arguments[a - 2], arguments[a - 1], arguments[a])
    elseif name == 'release_known' then
      k, a = k + 2, a + 2
      replies[count] = release(keys[k - 1], keys[k], arguments[a])
    elseif name == 'extend_known' then
      k, a = k + 2, a + 3
      replies[count] = on_demand().extend(keys[k - 1], keys[k], arguments[a - 1], arguments[a])
    elseif name == 'release' then
      k, a = k + 1, a + 2
      replies[count] = release(nil, keys[k], arguments[a])
    elseif name == 'extend' then
      k, a = k + 1, a + 3
      replies[count] = on_demand().extend(nil, keys[k], arguments[a - 1], arguments[a])
    elseif name == 'is_locked' then
      k, a = k + 1, a + 2
      replies[count] = on_demand().is_locked(keys[k], arguments[a])
    elseif name == 'lookup_key' then
      k, a = k + 1, a + 1
      replies[count] = on_demand().lookup_key(keys[k])
    elseif name == 'lookup_id' then
      k, a = k + 1, a + 2
      replies[count] = on_demand().lookup_id(keys[k], arguments[a])
    else
      a = last
      replies = redis.error_reply('ERR unknown operation')
    end
  end
end

while a < #arguments do
  local succeeded, why = pcall(perform_those_left)
  if not succeeded then
    replies[count] = {err = type(why) == 'table' and why.err or tostring(why)}
  end
end
return replies
