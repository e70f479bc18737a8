-- Corrects the replies if several operations of one group release the same lock.

-- Only the first operation has released the lock.
local function refuse_repeated_releases(size, index_keys_after, replies, replies_after)
  local released = {}
  for i = 1, size do
    local lock_key, index_key = KEYS[index_keys_after - size + i], KEYS[index_keys_after + i]
    if released[index_key] == lock_key then replies[replies_after + i] = -1 end
    released[index_key] = lock_key
  end
end
