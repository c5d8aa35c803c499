-- SPDX-License-Identifier: Apache-2.0
-- efficient_keep renews a lease, or ends it. It never shortens the remaining TTL.
-- KEYS: lock
-- ARGV: lease; ttl ms, or 0 to end the lease
-- Returns {1, ms that were left}, or {0, value or '', pttl ms} if the lease does not hold the lock.

local lock, lease, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- GET fails if several leases hold the lock together: then it is a sorted set.
local value, left = redis.pcall('GET', lock), redis.call('PTTL', lock)
if type(value) ~= 'string' or string.sub(value, 1, #lease + 1) ~= lease .. ' ' then
  return {0, type(value) == 'string' and value or '', left}
end
-- PEXPIRE GT does this in one command, but only from Redis 7 on.
if ttl == 0 then redis.call('DEL', lock) elseif ttl > left then redis.call('PEXPIRE', lock, ttl) end
return {1, left}
