-- SPDX-License-Identifier: Apache-2.0
-- pass ends an exclusive lease and begins another in its place.
-- Gets: now, closed of guard.lua; lease.lua and queue.lua.
-- KEYS: lock, floor, epoch, broken, queue
-- ARGV: lease, the attempt of its successor, ttl ms
-- Returns {1, token, how many after it are reserved for the lease, 1 if the lock has
-- waiters, or 0}, {0, who broke the lease or ''}, {-2} if nothing may be granted now,
-- {-1} if there is no record of the epoch, or {-5, ttl} if that is longer than MaxTTL.

local lock, floor, epoch, broken, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lease, successor, ttl = unpack(ARGV)

local known = redis.call('MGET', lock, floor, epoch)
local value = known[1]
if owned(value, (parse(successor))) then
  lengthen(lock, ttl)
  local token = string.match(value, '^%S+ %S+ (%S+)')
  return {1, token, math.max(0, highest(known[2]) - token), redis.call('EXISTS', queue)}
end
if not owned(value, lease) then
  local news = redis.call('GET', broken)
  return {0, owned(news, lease) and string.sub(news, #lease + 2) or ''}
end
local at = now()
local shut = closed(epoch, known[3], at, ttl)
if shut ~= 0 then return {shut < 0 and shut or -2, ttl} end
local s = state(lock, floor, queue, at, highest(known[2]))
local token = give(s, ttl, 'XX', parse(successor))
return {1, token, s.spare, redis.call('EXISTS', queue)}
