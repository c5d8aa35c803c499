-- SPDX-License-Identifier: Apache-2.0
-- The rest of acquire, one lock after the other.

local function ask(lock, floor, queue, ended, lease)
  local known = redis.call('MGET', lock, floor, ended)
  local value = known[1]
  if known[3] then return {-3} end
  if owned(value, lease) then
    lengthen(lock, ttl)
    local token = string.match(value, '^%S+ %S+ (%S+)')
    return {1, token, math.max(0, highest(known[2]) - token), redis.call('EXISTS', queue), at}
  end

  local me, s = join(lease, client, kind, record), state(lock, floor, queue, at, known[2], claim, channel)
  if value then
    s.n, s.kind = 1, 'exclusive'
  elseif redis.call('EXISTS', lock) == 1 then
    -- A writer's lease is here if it has been downgraded.
    local mine = kind == 'exclusive' and join(lease, client, 'shared', record) or me
    s.n, s.kind = sharers(lock, at)
    if s.n > 0 and stay(lock, mine, ttl, at) then
      return {1, digits(-redis.call('ZSCORE', lock, '@' .. mine)), 0, 1, at}
    end
    local slots = tonumber(s.kind)
    if slots and place == '' and tonumber(kind) and slots ~= tonumber(kind) then return {-4, slots} end
  end

  if shut < 0 then return {shut, ttl} end
  if not value and shut == 0 then
    local token = admit(s, false, me, ttl)
    if token then return {1, token, s.spare, redis.call('EXISTS', queue), at} end
    value = alone(lock)
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
    redis.call('PEXPIRE', queue, QUEUE)
    rank = redis.call('ZRANK', queue, me)
  end
  local holders = {}
  if wait ~= '1' and s.n > 0 and not value then holders = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES') end
  return {0, value or '', left(s, kind), rank, place, math.ceil(shut / 1000), holders, at}
end

for i = 1, n do
  answers[i] = answers[i] or each(n, ask, KEYS[2 * n + 1 + i], KEYS[1 + i], KEYS[3 * n + 1 + i], KEYS[n + 1 + i], ARGV[8 + i])
end
return answers
