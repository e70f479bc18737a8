-- Shared by all operations: the time, and the layout of a stored lock.
--
-- The files of this folder are joined into one script (their order: CMakeLists.txt), so that one
-- call performs many operations: the work per call and the work in Lua limit the throughput of
-- Redis. For the same reason the code below avoids formatting, matching and decoding if a
-- comparison is enough, functions that most calls do not use (creating one costs half as much as a
-- GET), and new strings (Redis' Lua reads each of their bytes).

local call, sub, find, format = redis.call, string.sub, string.find, string.format

-- One time for all operations of a call.
local time = call('TIME')
local now_ms = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000

-- The layout that acquire writes; a lock id has 22 characters, a time has 13 digits until 2286:
--   {"lockId":"<id>","expiresAtMs":<ms>,"acquiredAtMs":<ms>,"key":"<key>","fence":"<fence>"}
-- Other writers may use other layouts, which are read as JSON.
--
-- The client does not pass the lock id: it is the end of the index key, and taking it from there
-- costs less than one more argument.

-- Whether this value is, in this layout, a live lock of the id at the end of the index key. If
-- false, it may still be one in another layout.
local function is_at_a_glance(stored, index_key)
  if not stored
      or find(stored, sub(index_key, -22), 12, true) ~= 12
      or find(stored, '{"lockId":"', 1, true) ~= 1
      or find(stored, '","expiresAtMs":', 34, true) ~= 34
      or find(stored, ',', 63, true) ~= 63 then
    return false
  end
  local expires_at_ms = tonumber(sub(stored, 50, 62))
  return expires_at_ms and expires_at_ms > now_ms - tolerance_ms
end
