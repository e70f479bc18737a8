-- What follows, up to on_demand_end, is the body of a function: it is made when it is first needed.

local made_on_demand
local function on_demand()
  if made_on_demand then return made_on_demand end
