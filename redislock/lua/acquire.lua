-- SPDX-License-Identifier: Apache-2.0
-- acquire asks for one or more locks, each for one lease. A waiter also uses it to look
-- again, and to renew a claim. Repeating it is harmless. The part before "with
-- queue.lua" is for the ordinary case: the locks are free and have no waiters. It reads
-- all locks together.
-- Gets: now, quarantine of guard.lua; owned, lengthen, hold of lease.lua. Its rest, all of queue.lua.
-- KEYS: epoch; the floors of all locks; the tombstones of all leases; the locks; the queues
-- ARGV: client, kind, record, ttl ms, claim ms, channel, wait (1 or 0), place or ''; the leases
-- Returns for each lock one of:
-- {1, token, number of reserved tokens after it, 1 if the lock has waiters, else 0, server time}
-- {0, value or '', pttl ms, rank or -1, place or '', closed ms, the leases that hold the
-- lock together, with scores, or {}, server time}
-- {-1} if the record of the epoch is missing
-- {-5, ttl} if ttl is longer than MaxTTL
-- {-3} if the lease has a tombstone
-- {-4, n} if the lock has n slots, and the caller asked for another number
-- an error

local n = math.floor((#KEYS - 1) / 4) -- in a cluster KEYS has one key more, the last
local client, kind, record, ttl, claim, channel, wait, place = unpack(ARGV, 1, 8)
local epoch, known, at = KEYS[1], redis.call('MGET', unpack(KEYS, 1, 2 * n + 1)), now()
local shut = quarantine(epoch, known[1], at, ttl)

local answers, rest = {}, n
if shut == 0 and kind == 'exclusive' then
  local busy = redis.call('EXISTS', unpack(KEYS, 2 * n + 2, 4 * n + 1)) > 0
  for i = 1, n do
    local ended, lock, queue = known[n + 1 + i], KEYS[2 * n + 1 + i], KEYS[3 * n + 1 + i]
    local last = tonumber(known[1 + i] or 0) -- nil if another program has written the floor
    if last and not ended and not (busy and (n == 1 or redis.call('EXISTS', lock, queue) > 0)) then
      -- hold uses SET NX, as the same lock may be in KEYS twice.
      local token, spare = hold(lock, KEYS[1 + i], at, last, ttl, ARGV[8 + i], client, record)
      answers[i] = token and {1, token, spare, 0, at}
    end
    if answers[i] then rest = rest - 1 end
  end
end
if rest == 0 then return answers end

-- with queue.lua: The rest, one lock after the other.
local function ask(lock, floor, queue, ended, lease)
  local known = redis.call('MGET', lock, floor, ended)
  local value = known[1]
  if known[3] then return {-3} end
  -- In a quarantine the caller's own lease may be stale: it may have ended on another server,
  -- where another lease has the name now. So do not confirm it here. A client that knows that
  -- it has the lease uses extend instead.
  local own = owned(value, lease)
  if own and shut == 0 then
    redis.call('ZREM', queue, join(lease, client, kind, record)) -- there since a request in a quarantine
    redis.call('DEL', queue .. CLAIM)
    lengthen(lock, ttl)
    wrote = true
    local token = string.match(value, '^%S+ %S+ (%S+)')
    local spare = math.min(SPARE, highest(known[2]) - token) -- another name may have raised the floor since
    return {1, token, math.max(0, spare), redis.call('EXISTS', queue), at}
  end

  local shares
  local me, s = join(lease, client, kind, record), state(lock, floor, queue, at, highest(known[2]), claim, channel)
  if value then
    s.n, s.kind = 1, 'exclusive'
  elseif redis.call('EXISTS', lock) == 1 then
    s.n, s.kind = sharers(lock, at)
    shares = redis.call('ZSCORE', lock, '@' .. me)
    if shares and shut == 0 and stay(lock, me, ttl, at) then
      redis.call('ZREM', queue, me)
      return {1, digits(-shares), 0, 1, at}
    end
    local slots = tonumber(s.kind)
    if slots and place == '' and tonumber(kind) and slots ~= tonumber(kind) then return {-4, slots} end
  end

  if shut < 0 then return {shut, ttl} end
  if not value and shut == 0 then
    local token = pass(s, me, ttl, wait == '1' and place ~= '')
    if token == nil then token = admit(s, false, me, ttl) end
    if token then return {1, token, s.spare, redis.call('EXISTS', queue), at} end
    value = alone(lock)
  end
  if value and not own and string.find(value, KEEPS, 1, true) then
    local holder, keeper = string.match(value, '^(%S+) (%S+)')
    redis.call('PUBLISH', string.match(channel, '^[^{]*') .. keeper, 'wanted ' .. holder .. ' ' .. wait)
  end

  local rank, place = -1, place
  if wait == '1' then
    if place == '' then
      place = at
      local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
      if last then place = math.max(at, last + 1) end
      place = digits(place)
    end
    redis.call('ZADD', queue, 'NX', place, me)
    wrote = true
    redis.call('PEXPIRE', queue, QUEUE)
    rank = redis.call('ZRANK', queue, me)
  end
  local holders = {}
  if wait ~= '1' and s.n > 0 and not value and not shares then holders = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES') end
  return {0, own and '' or value or '', left(s, kind), rank, place, math.ceil(shut / 1000), holders, at}
end

for i = 1, n do
  answers[i] = answers[i] or try(ask, KEYS[2 * n + 1 + i], KEYS[1 + i], KEYS[3 * n + 1 + i], KEYS[n + 1 + i], ARGV[8 + i])
end
return answers
