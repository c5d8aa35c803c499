-- SPDX-License-Identifier: Apache-2.0
-- pass ends an exclusive lease and begins another in its place.
-- KEYS: lock, floor, epoch, broken
-- ARGV: lease, the attempt of its successor, ttl ms
-- Returns {1, token}, {0, who broke the lease or ''}, {-2} if nothing may be granted now,
-- or {-1} if there is no record of the epoch.

local lock, floor, epoch, broken = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, successor, ttl = unpack(ARGV)

local known = redis.call('MGET', lock, floor, epoch)
local value = known[1]
if owned(value, (parse(successor))) then
  lengthen(lock, ttl)
  return {1, string.match(value, '^%S+ %S+ (%S+)')}
end
if not owned(value, lease) then
  local news = redis.call('GET', broken)
  return {0, owned(news, lease) and string.sub(news, #lease + 2) or ''}
end
local at = now()
local shut = closed(epoch, known[3], at)
if shut ~= 0 then return {shut < 0 and -1 or -2} end
return {1, give(state(lock, floor, '', at, known[2]), ttl, parse(successor))}
