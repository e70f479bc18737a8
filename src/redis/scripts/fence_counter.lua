-- Whether a fence counter may count on.

local last_fence = 900000000000000

local function check_counter(counter)
  local value = tonumber(counter)
  if value and value >= 0 and value < last_fence then return end
  error({err = match(counter, '^%d+$') and 'FENCEEND the fence counter has reached its end'
    or 'FOREIGNVALUE the fence counter holds a value that is not a counter'})
end
