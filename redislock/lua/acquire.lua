-- SPDX-License-Identifier: Apache-2.0
-- acquire asks for a lock, claims one that was handed over, and looks again
-- while waiting. To repeat it is harmless.
-- KEYS: lock, floor, queue, epoch, ended
-- ARGV: lease, client, record, ttl ms, claim ms, channel, wait (1 or 0), place or ''
-- Returns {1, token}; {0, value or '', pttl ms, rank or -1, place or '', closed ms};
-- {-1} if the record of the epoch is missing; {-3} if the lease has ended already.

local lock, floor, queue, epoch, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lease, client, record, ttl, claim, channel, wait, place = unpack(ARGV)

local known = redis.call('MGET', lock, floor, epoch, ended)
local value, last = known[1], known[2]
if known[4] then return {-3} end
if owned(value, lease) then
  lengthen(lock, ttl)
  return {1, string.match(value, '^%S+ %S+ (%S+)')}
end

local at = now()
local shut = closed(epoch, known[3], at)
if shut < 0 then return {-1} end

if not value and shut == 0 then
  -- MGET takes what is no string for nothing.
  if redis.call('EXISTS', lock) == 1 then return redis.error_reply('WRONGTYPE the lock is no string') end
  local handed = hand(lock, floor, last, queue, at, claim, channel, lease)
  if not handed then
    local token = give(lock, floor, last, lease, client, record, at, ttl)
    if handed == nil then announce(lock, queue, channel) end
    return {1, token}
  end
  value = redis.call('GET', lock)
end

local rank = -1
if wait == '1' then
  local me = lease .. ' ' .. client .. ' ' .. record
  if place == '' then
    place = at
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    if last then place = math.max(at, last + 1) end
    place = digits(place)
  end
  redis.call('ZADD', queue, 'NX', place, me)
  redis.call('PEXPIRE', queue, QUEUE)
  rank = redis.call('ZRANK', queue, me)
end
return {0, value or '', redis.call('PTTL', lock), rank, place, math.ceil(shut / 1000)}
