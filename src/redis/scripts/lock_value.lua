-- What all operations share: the time, and the layout of what is stored under a lock's key.
--
-- The files of this folder are joined into one script (their order: CMakeLists.txt). Joined, because
-- one call then performs many operations: what bounds Redis is the work per call, and the work in
-- Lua. Hence also the care below not to format, match or decode where a comparison will do, and not
-- to make functions that most calls have no use for: making one costs half as much as a GET.

local call, sub, match, format = redis.call, string.sub, string.match, string.format

local tolerance_ms = 1000

-- One time for all operations of a call.
local time = call('TIME')
local now_ms = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local now_text = format('%d', now_ms)

-- The layout that acquire writes; a lock id has 22 characters, a time has 13 digits until 2286:
--   {"lockId":"<id>","expiresAtMs":<ms>,"acquiredAtMs":<ms>,"key":"<key>","fence":"<fence>"}
-- Any other layout is some other writer's, and read as JSON. Operations are given the beginning of
-- the value, up to the first time, in place of the lock id in it.

local newest_dead_text

-- Whether this value is a live lock that begins so. If not, it may still be one, in another layout.
local function is_at_a_glance(stored, beginning)
  if not stored or sub(stored, 1, 49) ~= beginning then return false end
  newest_dead_text = newest_dead_text or format('%d', now_ms - tolerance_ms)
  local expiry = match(stored, '^(%d+),', 50)
  return expiry and #expiry == 13 and expiry > newest_dead_text
end
