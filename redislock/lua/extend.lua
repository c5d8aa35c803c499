-- SPDX-License-Identifier: Apache-2.0
-- extend begins the TTL of a lease anew.
-- Gets: now, beyond of guard.lua; owned, alone, lengthen of lease.lua. Its rest, stay of queue.lua.
-- KEYS: lock. It must be the only one: so a lease can be renewed while its hash slot
-- moves to another node, which refuses scripts with several keys.
-- ARGV: lease, ttl ms, its attempt if others may hold the lock with it, else '', and
-- the key of the epoch, which is in the same hash slot. It is not among KEYS, as it may
-- already be elsewhere while the slot moves. So may the key of the claim that the lease has
-- come from if this is its first renewal, else nothing
-- Returns {1, ms that were left, server time}, {0, server time}, {-5, ttl} if that is longer than MaxTTL, or {-1} if
-- clients with other keys have the store.

local lock = KEYS[1]
local lease, ttl, attempt, epoch, claimed = unpack(ARGV)

local value, at = alone(lock), now()
local mine = owned(value, lease)
if not mine and (value or attempt == '') then return {0, at} end
local no = beyond(redis.pcall('GET', epoch), ttl)
if no then return {no, ttl} end
if claimed then redis.pcall('DEL', claimed) end
if mine then return {1, lengthen(lock, ttl), at} end

-- with queue.lua: The rest: others may hold the lock with the lease.
local left = stay(lock, attempt, ttl, at)
if not left then return {0, at} end
return {1, left, at}
