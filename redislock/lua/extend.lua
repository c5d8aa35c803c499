-- SPDX-License-Identifier: Apache-2.0
-- extend begins the TTL of a lease anew.
-- KEYS: lock, broken
-- ARGV: lease, ttl ms
-- Returns {1, ms that were left, server time}, or {0, who broke the lease or '', server time}.

local lock, broken = KEYS[1], KEYS[2]
local lease, ttl = unpack(ARGV)

if not owned(redis.call('GET', lock), lease) then
  local news = redis.call('GET', broken)
  return {0, owned(news, lease) and string.sub(news, #lease + 2) or '', now()}
end
return {1, lengthen(lock, ttl), now()}
