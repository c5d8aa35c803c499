-- SPDX-License-Identifier: Apache-2.0
-- downgrade makes an exclusive lease a shared one, with the same token and TTL, and
-- lets in the readers at the head of the queue.
-- Gets: now, digits of guard.lua; lease.lua and queue.lua.
-- KEYS: lock, floor, queue, epoch, broken
-- ARGV: the attempt as a shared one, claim ms, channel
-- Returns {1}, or {0, who broke the lease or ''}.

local lock, floor, queue, epoch, broken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local attempt, claim, channel = unpack(ARGV)
local lease = parse(attempt)

local value, at = alone(lock), now()
if owned(value, lease) then
  local left = redis.call('PTTL', lock)
  redis.call('DEL', lock)
  redis.call('ZADD', lock, digits(at + left * 1000), attempt, '-' .. string.match(value, '^%S+ %S+ (%S+)'), '@' .. attempt)
  redis.call('PEXPIRE', lock, left)
elseif value or tonumber(redis.call('ZSCORE', lock, attempt) or 0) <= at then
  local news = redis.call('GET', broken)
  return {0, owned(news, lease) and string.sub(news, #lease + 2) or ''}
end
if redis.call('EXISTS', queue) == 1 then
  go(lock, floor, queue, epoch, claim, channel, at, false)
end
return {1}
