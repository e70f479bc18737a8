-- What all operations share: the time, and how to read what is stored under a lock's key.
--
-- The files of this folder are joined into one script: lock_value, one file for each operation,
-- perform. Joined, because one call then performs many operations: what bounds Redis is the work
-- per call, and the work in Lua. Hence also the care below not to format, match or decode where a
-- comparison will do.

local tolerance_ms = 1000

-- One time for all operations of a call.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%d', now_ms)

-- The end of a lock of this TTL, in digits. Most locks of a call have the same TTL.
local expiry_texts = {}
local function expiry_text(ttl_ms)
  local text = expiry_texts[ttl_ms]
  if not text then
    text = string.format('%d', now_ms + ttl_ms)
    expiry_texts[ttl_ms] = text
  end
  return text
end

local function is_live(expires_at_ms)
  return expires_at_ms > now_ms - tolerance_ms
end

-- The layout that acquire writes; a lock id has 22 characters, a time has 13 digits until 2286:
--   {"lockId":"<id>","expiresAtMs":<ms>,"acquiredAtMs":<ms>,"key":"<key>","fence":"<fence>"}
-- Any other layout is some other writer's, and read as JSON.
local before_id, after_id, after_expiry = '{"lockId":"', '","expiresAtMs":', ',"acquiredAtMs":'
local before_fence = ',"fence":"'

local function has_own_layout(stored)
  local _, last_digit = string.find(stored, '^%d+', 50)
  return last_digit == 62
      and string.sub(stored, 1, 11) == before_id and string.sub(stored, 34, 49) == after_id
      and string.sub(stored, 63, 78) == after_expiry
      and string.sub(stored, -27, -18) == before_fence and string.sub(stored, -2) == '"}'
end

-- A stored lock, whoever wrote it. A value that is no lock belongs to somebody else: it is an
-- error, so that nothing overwrites it.
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
    return string.sub(stored, 12, 33), tonumber(string.sub(stored, 50, 62))
  end
  local lock = decoded_lock(stored)
  return lock.lockId, lock.expiresAtMs
end

-- Finds the lock that an id names. Returns 1, the lock's key and its value; or why there is none:
-- -1 not found, 0 it belongs to another id, -2 expired. Where the caller knows the lock's key, a
-- look there saves the way over the index.
local function find_owned(known_lock_key, index_key, id)
  if known_lock_key then
    local stored = redis.call('GET', known_lock_key)
    if stored then
      local owner, expires_at_ms = owner_and_expiry(stored)
      if owner == id then
        return is_live(expires_at_ms) and 1 or -2, known_lock_key, stored
      end
    end
  end
  local lock_key = redis.call('GET', index_key)
  if not lock_key then return -1 end
  local stored = redis.call('GET', lock_key)
  if not stored then return -1 end
  local owner, expires_at_ms = owner_and_expiry(stored)
  if owner ~= id then return 0 end
  if not is_live(expires_at_ms) then return -2 end
  return 1, lock_key, stored
end
