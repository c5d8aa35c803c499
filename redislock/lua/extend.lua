-- SPDX-License-Identifier: Apache-2.0
-- extend renews a lease.
-- Gets: now, beyond of guard.lua; owned, alone, lengthen of lease.lua. Its rest, stay, find and broken of queue.lua.
-- KEYS: lock. Only one: while a hash slot moves to another node, Redis runs scripts with one
-- key and refuses scripts with several. So a lease can be renewed during the move.
-- ARGV: lease; ttl ms; '' if the lease is exclusive, else its attempt, or ? if that is not known; the key of
-- the epoch; the beginning of the keys beside the lock. Those keys are in the same hash slot. They are not in
-- KEYS, as they may already be at the other node while the slot moves.
-- Returns {1, ms that were left, server time}; {0, record of its break, or '', server time}; {-5, ttl} if ttl is
-- longer than MaxTTL; or {-1} if the store belongs to clients with another Pattern.

local lock = KEYS[1]
local lease, ttl, attempt, epoch, beside = unpack(ARGV)

local value, at = alone(lock), now()
local mine = owned(value, lease)
local no = (mine or not value and attempt ~= '') and beyond(redis.pcall('GET', epoch), ttl)
if no then return {no, ttl} end

-- renewed returns the answer. If the lease came from a hand-off, the renewal takes the claim: so
-- renewed deletes the note of it.
local function renewed(left)
  local claim = beside .. ':queue:claim'
  if redis.pcall('GET', claim) == lease then redis.pcall('DEL', claim) end
  return {1, left, at}
end
if mine then return renewed(lengthen(lock, ttl)) end

-- with queue.lua: The rest: the lease may share the lock with others.
if attempt == '?' then attempt = not value and find(lock, lease) or '' end
local left = not value and attempt ~= '' and stay(lock, attempt, ttl, at)
if left then return renewed(left) end
return {0, broken(beside, lease), at}
