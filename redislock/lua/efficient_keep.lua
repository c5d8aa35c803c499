-- SPDX-License-Identifier: Apache-2.0
-- keep of Efficiency begins the TTL of a lease anew, and never shortens it, or ends the lease.
-- KEYS: lock
-- ARGV: lease, ttl ms; 0 ends it
-- Returns {1, ms that were left}, or {0, value or '', pttl ms} if that lease is not the holder.

local lock, lease, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- What several hold together is no string.
local value, left = redis.pcall('GET', lock), redis.call('PTTL', lock)
if type(value) ~= 'string' or string.sub(value, 1, #lease + 1) ~= lease .. ' ' then
  return {0, type(value) == 'string' and value or '', left}
end
-- PEXPIRE GT would do, from Redis 7 on.
if ttl == 0 then redis.call('DEL', lock) elseif ttl > left then redis.call('PEXPIRE', lock, ttl) end
return {1, left}
