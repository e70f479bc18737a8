-- extend, extend_known
--   KEYS   (known: the lock key,) index key
--   shared TTL in ms
--   reply  1 extended | 0 another's | -1 not found | -2 expired

-- The same value with another expiry; everything else remains as its writer wrote it.
local function with_new_expiry(stored, index_key, ttl_ms)
  local expiry_text = format('%d', now_ms + ttl_ms)
  if is_at_a_glance(stored, index_key) then
    return sub(stored, 1, 49) .. expiry_text .. sub(stored, 63)
  end
  -- Quotes inside a string are escaped, so this does not match there.
  local text, places = string.gsub(stored, '("expiresAtMs"%s*:%s*)[%d.eE+-]+', '%1' .. expiry_text)
  if places == 1 then
    local is_json, lock = pcall(cjson.decode, text)
    if is_json and lock.expiresAtMs == now_ms + ttl_ms then return text end
  end
  -- The last resort: cjson turns empty lists into objects and rounds long numbers.
  local lock = cjson.decode(stored)
  lock.expiresAtMs = now_ms + ttl_ms
  return cjson.encode(lock)
end

local function extend(known_lock_key, index_key, ttl_ms)
  local found, lock_key, stored = find_owned(known_lock_key, index_key)
  if found == 1 then
    local extended = with_new_expiry(stored, index_key, ttl_ms)
    -- The index is written first: an extension that fails leaves the lock unchanged.
    local written = redis.pcall('SET', index_key, lock_key, 'PX', ttl_ms)
    if written.err and find(written.err, 'OOM ', 1, true) then
      -- A server without free memory refuses SET, except after a write in the same script that
      -- needs no memory.
      redis.pcall('PEXPIRE', index_key, ttl_ms)
      written = redis.pcall('SET', index_key, lock_key, 'PX', ttl_ms)
    end
    if written.err then error(written) end
    call('SET', lock_key, extended, 'PX', ttl_ms)
  end
  return found
end
