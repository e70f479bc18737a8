-- is_locked
--   KEYS   lock key
--   shared the index prefix, to remove a lock that ended long ago; empty to remove nothing
--   reply  1 locked | 0 free

-- The index prefix followed by anything but a lock id may be the key of another lock.
local function is_lock_id(text)
  return #text == 22 and not string.find(text, '[^%w_-]')
end

local function is_locked(lock_key, index_prefix)
  local stored = call('GET', lock_key)
  if not stored then return 0 end
  local owner, expires_at_ms = owner_and_expiry(stored)
  if is_live(expires_at_ms) then return 1 end
  if index_prefix ~= '' and now_ms - expires_at_ms > cleanup_guard_ms and is_lock_id(owner) then
    -- pcall: the reply is valid even if the server cannot write, for example on a replica.
    redis.pcall('DEL', lock_key, index_prefix .. owner)
  end
  return 0
end
