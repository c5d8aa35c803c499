-- SPDX-License-Identifier: Apache-2.0
-- extend begins the TTL of a lease anew.
-- KEYS: lock, queue, broken
-- ARGV: lease, ttl ms, channel
-- Returns {1, ms that were left}, or {0, who broke the lease or ''}.

local lock, queue, broken = KEYS[1], KEYS[2], KEYS[3]
local lease, ttl, channel = unpack(ARGV)

if not owned(redis.call('GET', lock), lease) then
  local news = redis.call('GET', broken)
  return {0, owned(news, lease) and string.sub(news, #lease + 2) or ''}
end
local left = redis.call('PTTL', lock)
redis.call('PEXPIRE', lock, ttl)
if tonumber(ttl) < left then
  announce(lock, queue, channel) -- who waits for the old end would be late
end
return {1, left}
