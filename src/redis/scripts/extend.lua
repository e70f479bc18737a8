-- extend, extend_known
--   KEYS  (known: the lock key,) index key
--   ARGV  lock id, TTL in ms
--   reply 1 extended | 0 another's | -1 not found | -2 expired

-- The same value with another expiry; all else stays as its writer wrote it.
local function with_new_expiry(stored, ttl_ms)
  if has_own_layout(stored) then
    return string.sub(stored, 1, 49) .. expiry_text(ttl_ms) .. string.sub(stored, 63)
  end
  -- Inside a string, quotes are escaped: this finds nothing there.
  local text, places = string.gsub(stored, '("expiresAtMs"%s*:%s*)[%d.eE+-]+',
    '%1' .. expiry_text(ttl_ms))
  if places == 1 then
    local is_json, lock = pcall(cjson.decode, text)
    if is_json and lock.expiresAtMs == now_ms + ttl_ms then return text end
  end
  -- Not the first choice: cjson makes objects of empty lists and rounds long numbers.
  local lock = cjson.decode(stored)
  lock.expiresAtMs = now_ms + ttl_ms
  return cjson.encode(lock)
end

local function extend(known_lock_key, index_key, id, ttl_ms)
  local found, lock_key, stored = find_owned(known_lock_key, index_key, id)
  if found == 1 then
    redis.call('SET', lock_key, with_new_expiry(stored, ttl_ms), 'PX', ttl_ms)
    redis.call('SET', index_key, lock_key, 'PX', ttl_ms)
  end
  return found
end
