-- The code up to on_demand_end is the body of a function: its local functions are created when they
-- are first needed.

local made_on_demand
local function on_demand()
  if made_on_demand then return made_on_demand end
