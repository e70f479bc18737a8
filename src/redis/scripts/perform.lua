-- Performs one operation after another. KEYS and ARGV hold what each operation takes, in their
-- order; in ARGV its name comes first. The reply is a list: the server's time in ms, which granted
-- locks and extensions count from, then one element for each operation. Numbers, because they cost
-- the least to make into a reply. An operation that fails does not disturb the others.

local replies = {now_ms}
local count, k, a = 1, 0, 0
while a < #ARGV do
  local name = ARGV[a + 1]
  local succeeded, reply
  if name == 'acquire' then
    succeeded, reply = pcall(acquire, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3],
      ARGV[a + 2], ARGV[a + 3], ARGV[a + 4])
    k, a = k + 3, a + 4
  elseif name == 'release_known' then
    succeeded, reply = pcall(release, KEYS[k + 1], KEYS[k + 2], ARGV[a + 2])
    k, a = k + 2, a + 2
  elseif name == 'extend_known' then
    succeeded, reply = pcall(extend, KEYS[k + 1], KEYS[k + 2], ARGV[a + 2], ARGV[a + 3])
    k, a = k + 2, a + 3
  elseif name == 'release' then
    succeeded, reply = pcall(release, nil, KEYS[k + 1], ARGV[a + 2])
    k, a = k + 1, a + 2
  elseif name == 'extend' then
    succeeded, reply = pcall(extend, nil, KEYS[k + 1], ARGV[a + 2], ARGV[a + 3])
    k, a = k + 1, a + 3
  elseif name == 'is_locked' then
    succeeded, reply = pcall(is_locked, KEYS[k + 1], ARGV[a + 2])
    k, a = k + 1, a + 2
  elseif name == 'lookup_key' then
    succeeded, reply = pcall(lookup_key, KEYS[k + 1])
    k, a = k + 1, a + 1
  elseif name == 'lookup_id' then
    succeeded, reply = pcall(lookup_id, KEYS[k + 1], ARGV[a + 2])
    k, a = k + 1, a + 2
  else
    return redis.error_reply('ERR unknown operation')
  end
  count = count + 1
  if succeeded then
    replies[count] = reply
  else
    replies[count] = {err = type(reply) == 'table' and reply.err or tostring(reply)}
  end
end
return replies
