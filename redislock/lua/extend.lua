-- SPDX-License-Identifier: Apache-2.0
-- extend begins the TTL of a lease anew.
-- KEYS: lock. It must be the only one: so a lease can be renewed while its hash slot
-- moves to another node, which refuses scripts with several keys.
-- ARGV: lease, ttl ms
-- Returns {1, ms that were left, server time}, or {0, server time}.

local lock = KEYS[1]
local lease, ttl = unpack(ARGV)

if not owned(redis.call('GET', lock), lease) then
  return {0, now()}
end
return {1, lengthen(lock, ttl), now()}
