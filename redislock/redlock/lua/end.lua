-- SPDX-License-Identifier: Apache-2.0
-- end ends leases: they lose their locks and their places in the queues, and may be marked
-- as ended, so that late requests do nothing. This part serves two ordinary cases. In the
-- first, every lease is exclusive and nobody waits for its name; it reads all of them
-- together. In the second, there is one lease, with a queue and without listeners.
-- Gets: now of guard.lua; common.lua. The rest also gets each of each.lua and all of state.lua.
-- KEYS: the epoch; then for all leases the locks, the floors, the listeners, the wishes, the
-- marks that they have ended
-- ARGV: how long the marks last in ms, or 0 for no marks; the news or ''; held (1 or 0);
-- the channel; the leases; for each, the token of the next lease or 0
-- Returns for each lease {2} if a waiter has its lock now, {1} if the lease had a lock, else {0}; or an error.

local n = (#KEYS - 1) / 5
local remember, news, held, channel = unpack(ARGV, 1, 4)

-- hand gives the lock of own, a lease that ends, to the first waiter of the queue, as if this
-- waiter had proposed the token next. record is the record of the floor. A
-- waiter whose client is gone leaves the queue. own leaves it, too: a renewal may have given it
-- the lock while it was in the queue. If the node may not grant the lock, the waiter keeps its place.
local function hand(lock, listeners, floor, next, own, record, epoch)
  local queue, at = queued(listeners), now()
  for lease in first, queue do
    local place = queue .. ':' .. lease
    local client, seq, least, ttl, group, text = string.match(lease ~= own and redis.call('GET', place) or '', '^(%S+) (%d+) (%d+) (%d+) (%S*) (.*)$')
    local to = client and not other(KEYS[1], group) and channel .. client
    if to and redis.call('PUBSUB', 'NUMSUB', to)[2] == 0 then to = nil end
    local token
    if to then
      token = tonumber(least) > tonumber(next) and least or next
      if tonumber(token) <= tonumber(string.match(record or '0', '^%d+')) or tonumber(token) > LARGEST or quarantine(KEYS[1], epoch, at, ttl) ~= 0 then
        return false
      end
      local value = lease .. ' ' .. client .. ' ' .. token .. ' ' .. digits(at) .. ' ' .. text
      -- If the server has no memory for the floor or the lock, the lock becomes free.
      if not pcall(store, floor, record, token, lease, false) or
          redis.pcall('SET', lock, value, 'PX', ttl).err then return false end
    end
    redis.call('ZREM', queue, lease, own)
    redis.call('DEL', place, queue .. ':' .. own)
    if to then
      redis.call('PUBLISH', to, 'turn ' .. lease .. ' ' .. token .. ' ' .. seq .. ' ' .. (boot == '' and '-' or boot))
      return true
    end
  end
  return false
end

local answers, rest = {}, n
if remember == '0' then
  local known = redis.call('MGET', unpack(KEYS, 1, n == 1 and 3 or n + 1)) -- the floor serves hand only
  local waiting = {}
  for i = 1, n do
    waiting[3 * i - 2], waiting[3 * i - 1], waiting[3 * i] = KEYS[2 * n + 1 + i], queued(KEYS[2 * n + 1 + i]), KEYS[3 * n + 1 + i]
  end
  local busy = redis.call('EXISTS', unpack(waiting))
  if n == 1 and busy == 1 and held == '1' and ARGV[6] ~= '0' and owned(known[2], ARGV[5]) then
    if hand(KEYS[2], KEYS[4], KEYS[3], ARGV[6], ARGV[5], known[3], known[1]) then return {{2}} end
    dequeue(KEYS[4], ARGV[5])
  end
  local free = {}
  for i = 1, n do
    local lock = KEYS[1 + i]
    if owned(known[1 + i], ARGV[4 + i]) and not free[lock] and not (busy > 0 and (n == 1 or redis.call('EXISTS', unpack(waiting, 3 * i - 2, 3 * i)) > 0)) then
      answers[i], free[lock], rest = {1}, true, rest - 1
      free[#free + 1] = lock
    end
  end
  if free[1] then redis.call('DEL', unpack(free)) end
end

-- fail records that the token of a failed attempt does not stand: no lease had it. The
-- record takes memory. A server without memory must still let clients give locks back, so
-- fail ignores that error.
local function fail(floor, lease)
  local record = redis.call('GET', floor)
  local token, owner, _, _, before, writer = standing(record)
  if owner == lease then
    redis.pcall('SET', floor, token .. ' ' .. lease .. ' x ' .. before .. ' ' .. writer, 'PX', FLOOR)
  end
end
if held ~= '1' then
  for i = 1, n do
    if answers[i] then fail(KEYS[n + 1 + i], ARGV[4 + i]) end
  end
end
if rest == 0 then return answers end

-- with each.lua and state.lua: The rest, one lock after the other.

local function finish(lock, floor, listeners, wishes, mark, lease, token)
  -- Delete first: a server without memory accepts the mark only after that. If it has
  -- nothing to delete it refuses the mark, and the client sends the ending again.
  local value, at = redis.call('MGET', lock)[1], now()
  local live, left, mine = value and {} or scored(lock, at), 0, nil
  if owned(value, lease) then
    mine = value
    if held == '1' then redis.call('DEL', lock, wishes) else redis.call('DEL', lock) end
  end
  for i = 1, #live, 2 do
    if owned(live[i], lease) then
      mine = live[i]
      redis.call('ZREM', lock, mine)
    else
      left = live[i + 1]
    end
  end
  if mine and left > 0 then redis.call('PEXPIRE', lock, millis(left, at)) end
  local waited = dequeue(listeners, lease)
  local wished = redis.call('ZREM', wishes, lease) == 1 and wished(wishes, at) == 0
  if remember ~= '0' then
    local old = redis.call('GET', mark)
    redis.call('SET', mark, old and old ~= '' and old or news, 'PX', remember)
  end
  if held ~= '1' then fail(floor, lease) end
  if not mine then
    -- The node may have told this waiter that the lock is free. Now it tells the next one. Its wish may have kept readers out.
    if wished or waited and not value and #live == 0 then wake(listeners, channel) end
    return {0}
  end
  local holder = news ~= '' and string.match(mine, '^%S+ (%S+)')
  if holder then redis.call('PUBLISH', channel .. holder, 'lost ' .. lease .. ' ' .. news) end
  if left == 0 then
    if token ~= '0' and value and redis.call('EXISTS', listeners) == 0 then
      local record, epoch = unpack(redis.call('MGET', floor, KEYS[1]), 1, 2)
      if hand(lock, listeners, floor, token, lease, record, epoch) then return {2} end
    end
    wake(listeners, channel)
  end
  return {1}
end

for i = 1, n do
  answers[i] = answers[i] or each(n, finish, KEYS[1 + i], KEYS[n + 1 + i], KEYS[2 * n + 1 + i], KEYS[3 * n + 1 + i], KEYS[4 * n + 1 + i],
    ARGV[4 + i], ARGV[4 + n + i])
end
return answers
