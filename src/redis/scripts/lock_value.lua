-- What all operations share: the time, and the layout of what is stored under a lock's key.
--
-- The files of this folder are joined into one script (their order: CMakeLists.txt). Joined, because
-- one call then performs many operations: what bounds Redis is the work per call, and the work in
-- Lua. Hence also the care below not to format, match or decode where a comparison will do, and not
-- to make functions that most calls have no use for: making one costs half as much as a GET. Nor to
-- make strings: Redis lets Lua look at each of their bytes.

local call, sub, find, format = redis.call, string.sub, string.find, string.format

-- One time for all operations of a call.
local time = call('TIME')
local now_ms = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000

-- The layout that acquire writes; a lock id has 22 characters, a time has 13 digits until 2286:
--   {"lockId":"<id>","expiresAtMs":<ms>,"acquiredAtMs":<ms>,"key":"<key>","fence":"<fence>"}
-- Any other layout is some other writer's, and read as JSON.
--
-- Nobody gives the lock id itself: it is what an index key ends in, and cutting it off there costs
-- less than taking one more argument.

-- Whether this value is a live lock of the id that the index key ends in. If not, it may still be
-- one, in another layout.
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
