-- SPDX-License-Identifier: Apache-2.0
-- acquire asks for a lock, claims one that was handed over, and looks again
-- while waiting. To repeat it is harmless.
-- KEYS: lock, floor, queue, epoch, ended
-- ARGV: lease, client, kind, record, ttl ms, claim ms, channel, wait (1 or 0), place or ''
-- Returns {1, token, how many after it are set aside for the lease, 1 if somebody waits for the lock, or
-- 0, server time}; {0, value or '', pttl ms, rank or -1, place or '', closed ms,
-- those who hold it together, with scores, or {}}; {-1} if the record of the epoch is missing; {-3} if
-- the lease has ended already; {-4, n} if n slots are shared out, and another number was asked for.

local lock, floor, queue, epoch, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lease, client, kind, record, ttl, claim, channel, wait, place = unpack(ARGV)

local known = redis.call('MGET', lock, floor, epoch, ended)
local value = known[1]
if known[4] then return {-3} end
local at = now()
if owned(value, lease) then
  lengthen(lock, ttl)
  local token = string.match(value, '^%S+ %S+ (%S+)')
  return {1, token, math.max(0, (known[2] or 0) - token), redis.call('EXISTS', queue), at}
end

-- Most of the time there is neither of the two.
local busy = value or redis.call('EXISTS', lock, queue) > 0
local me, s = nil, state(lock, floor, queue, at, known[2], claim, channel)
if value then
  s.n, s.kind = 1, 'exclusive'
elseif busy and redis.call('EXISTS', lock) == 1 then
  -- A writer's lease is here if it has been downgraded.
  local mine = join(lease, client, kind == 'exclusive' and 'shared' or kind, record)
  s.n, s.kind = sharers(lock, at)
  if s.n > 0 and stay(lock, mine, ttl, at) then
    return {1, digits(-redis.call('ZSCORE', lock, '@' .. mine)), 0, 1, at}
  end
  local slots = tonumber(s.kind)
  if slots and place == '' and tonumber(kind) and slots ~= tonumber(kind) then return {-4, slots} end
end

local shut = closed(epoch, known[3], at)
if shut < 0 then return {-1} end
if not value and shut == 0 then
  local token
  if not busy then
    token = give(s, ttl, lease, client, kind, record)
  else
    me = me or join(lease, client, kind, record)
    token = admit(s, false, me, ttl)
  end
  if token then return {1, token, s.spare, busy and redis.call('EXISTS', queue) or 0, at} end
  value = alone(lock)
end

local rank = -1
if wait == '1' then
  me = me or join(lease, client, kind, record)
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
local holders = {}
if wait ~= '1' and s.n > 0 and not value then holders = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES') end
return {0, value or '', left(s, kind), rank, place, math.ceil(shut / 1000), holders}
