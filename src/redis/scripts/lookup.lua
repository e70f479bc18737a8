-- lookup_key
--   KEYS  lock key
-- lookup_id
--   KEYS  index key
--   reply the stored lock | null

local function lookup_key(lock_key)
  local stored = call('GET', lock_key)
  if not stored then return false end
  local _, expires_at_ms = owner_and_expiry(stored)
  return is_live(expires_at_ms) and stored
end

local function lookup_id(index_key)
  local found, _, stored = find_owned(nil, index_key)
  return found == 1 and stored
end
