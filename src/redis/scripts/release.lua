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
