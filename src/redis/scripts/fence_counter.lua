-- What becomes of a counter that may not count on.

-- It was counted up to this, and is counted back: what fails has written nothing.
local function refuse_counter(fence_key, fence)
  redis.pcall('DECR', fence_key)
  error({err = fence > 0 and 'FENCEEND the fence counter has reached its end'
    or 'FOREIGNVALUE the fence counter holds a value that is not a counter'})
end
