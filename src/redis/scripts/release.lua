-- release, release_known
--   KEYS  (known: the lock key,) index key
--   reply 1 released | 0 another's | -1 not found | -2 expired

local function release(known_lock_key, index_key)
  if known_lock_key and is_at_a_glance(call('GET', known_lock_key), index_key) then
    call('DEL', known_lock_key, index_key)
    return 1
  end
  local found, lock_key = on_demand().find_owned(known_lock_key, index_key)
  if found == 1 then call('DEL', lock_key, index_key) end
  return found
end

-- Releases all locks of a group at once, and writes the replies. Returns false, having done
-- nothing, if a stored value is not a live lock in our layout, or if the Redis user may not use
-- MGET or DEL: then each is released by itself.
local function release_together(size, lock_keys_after, replies, replies_after)
  local keys, index_keys_after = KEYS, lock_keys_after + size
  local stored = redis.pcall('MGET', unpack(keys, lock_keys_after + 1, index_keys_after))
  for i = 1, size do
    if not is_at_a_glance(stored[i], keys[index_keys_after + i]) then return false end
  end
  local removed = redis.pcall('DEL', unpack(keys, lock_keys_after + 1, index_keys_after + size))
  if type(removed) ~= 'number' then return false end
  for i = 1, size do replies[replies_after + i] = 1 end
  if removed < 2 * size then
    on_demand().refuse_repeated_releases(size, index_keys_after, replies, replies_after)
  end
  return true
end
