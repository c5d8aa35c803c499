-- SPDX-License-Identifier: Apache-2.0
-- extend begins the TTL of a lease anew.
-- KEYS: lock. It must be the only one: so a lease can be renewed while its hash slot
-- moves to another node, which refuses scripts with several keys.
-- ARGV: lease, ttl ms, its attempt if others may hold the lock with it, else ''
-- Returns {1, ms that were left, server time}, or {0, server time}.

local lock = KEYS[1]
local lease, ttl, attempt = unpack(ARGV)

local value, at = alone(lock), now()
if owned(value, lease) then return {1, lengthen(lock, ttl), at} end
if value or attempt == '' then return {0, at} end
