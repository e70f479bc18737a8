-- release, release_known
--   KEYS  (known: the lock key,) index key
--   ARGV  lock id
--   reply 1 released | 0 another's | -1 not found | -2 expired

local function release(known_lock_key, index_key, id)
  local found, lock_key = find_owned(known_lock_key, index_key, id)
  if found == 1 then redis.call('DEL', lock_key, index_key) end
  return found
end
