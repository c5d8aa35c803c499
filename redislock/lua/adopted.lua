-- SPDX-License-Identifier: Apache-2.0
-- adopted is extend for a participant that has not got the lease itself, and so did not hear that the server
-- has lost data: while the server is closed, the lease may be one that had ended, where another one is trusted.
-- Gets: now, closed of guard.lua; owned, alone, lengthen of lease.lua; stay of queue.lua.
-- KEYS: lock, epoch
-- ARGV: lease, ttl ms, or 0 to change nothing, its attempt if others may hold the lock with it, else ''
-- Returns {1, ms that were left, server time}, {0, server time}, {-2, for how many more ms the server is closed},
-- {-5, ttl} if that is longer than MaxTTL, or {-1} if there is no record of the epoch.

local lock, epoch = KEYS[1], KEYS[2]
local lease, ttl, attempt = unpack(ARGV)

local at = now()
local shut = closed(epoch, redis.call('GET', epoch) or nil, at, ttl)
if shut < 0 then return {shut, ttl} end
if shut > 0 then return {-2, math.ceil(shut / 1000)} end
local value = alone(lock)
if owned(value, lease) then return {1, lengthen(lock, ttl), at} end
local left = not value and attempt ~= '' and stay(lock, attempt, ttl, at)
if not left then return {0, at} end
return {1, left, at}
