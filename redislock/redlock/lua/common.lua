-- SPDX-License-Identifier: Apache-2.0
-- Every script of redlock begins with guard.lua and with this file. What few calls need
-- is in state.lua: to make a function takes time.

local FLOOR = '86400000' -- how long a floor is remembered, in ms

-- owned says whether value, that of a lock, is that of the lease.
local function owned(value, lease)
  return value and lease ~= '' and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end
