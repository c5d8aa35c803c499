-- SPDX-License-Identifier: Apache-2.0
-- inuse removes from the record of a lease that its client may keep it when nobody uses
-- it, so that nobody asks for it any more.
-- Gets: owned, alone, KEEPS of lease.lua.
-- KEYS: lock
-- ARGV: lease
-- Returns {1}, or {0} if the lease does not hold the lock for itself.

local lock, lease = KEYS[1], ARGV[1]

local value = alone(lock)
if not owned(value, lease) then return {0} end
local from, to = string.find(value, KEEPS, 1, true)
if from then
  -- A millisecond is what PTTL leaves out: a lease never becomes shorter.
  redis.call('SET', lock, string.sub(value, 1, from - 1) .. '"keeps":null' .. string.sub(value, to + 1), 'PX', redis.call('PTTL', lock) + 1, 'XX')
end
return {1}
