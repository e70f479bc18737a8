-- Reads stored locks, written by this client or a peer.

local function is_live(expires_at_ms)
  return expires_at_ms > now_ms - tolerance_ms
end

local function has_own_layout(stored)
  local _, last_digit = string.find(stored, '^%d+', 50)
  return last_digit == 62
      and sub(stored, 1, 11) == '{"lockId":"' and sub(stored, 34, 49) == '","expiresAtMs":'
      and sub(stored, 63, 78) == ',"acquiredAtMs":'
      and sub(stored, -27, -18) == ',"fence":"' and sub(stored, -2) == '"}'
end

-- A value that is not a lock belongs to another program: this is an error, so that it is not
-- overwritten.
local function decoded_lock(stored)
  local is_json, lock = pcall(cjson.decode, stored)
  if is_json and type(lock) == 'table' and type(lock.lockId) == 'string'
      and type(lock.expiresAtMs) == 'number' and lock.expiresAtMs == lock.expiresAtMs then
    return lock
  end
  error({err = 'FOREIGNVALUE the key holds a value that is not a lock'})
end

local function owner_and_expiry(stored)
  if has_own_layout(stored) then
    return sub(stored, 12, 33), tonumber(sub(stored, 50, 62))
  end
  local lock = decoded_lock(stored)
  return lock.lockId, lock.expiresAtMs
end

-- Finds a lock by its id. Returns 1, the lock's key and its value; or the reason why there is none:
-- -1 not found, 0 it belongs to another id, -2 expired. If the caller knows the lock's key, reading
-- it first saves reading the index.
local function find_owned(known_lock_key, index_key)
  local id = sub(index_key, -22)
  if known_lock_key then
    local stored = call('GET', known_lock_key)
    if stored then
      local owner, expires_at_ms = owner_and_expiry(stored)
      if owner == id then
        return is_live(expires_at_ms) and 1 or -2, known_lock_key, stored
      end
    end
  end
  local lock_key = call('GET', index_key)
  if not lock_key then return -1 end
  local stored = call('GET', lock_key)
  if not stored then return -1 end
  local owner, expires_at_ms = owner_and_expiry(stored)
  if owner ~= id then return 0 end
  if not is_live(expires_at_ms) then return -2 end
  return 1, lock_key, stored
end
