-- SPDX-License-Identifier: Apache-2.0
-- pass ends a lease and begins another in its place.
-- KEYS: lock, floor, epoch, broken
-- ARGV: lease, its successor, client, record, ttl ms
-- Returns {1, token}, {0, who broke the lease or ''}, {-2} if nothing may be granted now,
-- or {-1} if there is no record of the epoch.

local lock, floor, epoch, broken = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, successor, client, record, ttl = unpack(ARGV)

local value = redis.call('GET', lock)
if owned(value, successor) then
  lengthen(lock, ttl)
  return {1, string.match(value, '^%S+ %S+ (%S+)')}
end
if not owned(value, lease) then
  local news = redis.call('GET', broken)
  return {0, owned(news, lease) and string.sub(news, #lease + 2) or ''}
end
local at = now()
local known = redis.call('MGET', floor, epoch)
local shut = closed(epoch, known[2], at)
if shut ~= 0 then return {shut < 0 and -1 or -2} end
return {1, give(lock, floor, known[1], successor, client, record, at, ttl)}
