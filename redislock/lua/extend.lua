-- SPDX-License-Identifier: Apache-2.0
-- extend begins the TTL of a lease anew.
-- Gets: now, beyond of guard.lua; owned, alone, lengthen of lease.lua. Its rest, stay, find and broken of queue.lua.
-- KEYS: lock. It must be the only one: so a lease can be renewed while its hash slot
-- moves to another node, which refuses scripts with several keys.
-- ARGV: lease; ttl ms; '' if the lease has the lock alone, else its attempt, or ? if that is not known; the key of
-- the epoch; what the keys beside the lock begin with. Those keys are in the same hash slot. They are not among
-- KEYS, as they may already be elsewhere while the slot moves.
-- Returns {1, ms that were left, server time}, {0, who has broken the lease, or '', server time}, {-5, ttl} if that is
-- longer than MaxTTL, or {-1} if clients with other keys have the store.

local lock = KEYS[1]
local lease, ttl, attempt, epoch, beside = unpack(ARGV)

local value, at = alone(lock), now()
local mine = owned(value, lease)
local no = (mine or not value and attempt ~= '') and beyond(redis.pcall('GET', epoch), ttl)
if no then return {no, ttl} end

-- renewed takes the claim that the lease may have come from.
local function renewed(left)
  local claim = beside .. ':queue:claim'
  if redis.pcall('GET', claim) == lease then redis.pcall('DEL', claim) end
  return {1, left, at}
end
if mine then return renewed(lengthen(lock, ttl)) end

-- with queue.lua: The rest: others may hold the lock with the lease.
if attempt == '?' then attempt = not value and find(lock, lease) or '' end
local left = not value and attempt ~= '' and stay(lock, attempt, ttl, at)
if left then return renewed(left) end
return {0, broken(beside, lease), at}
