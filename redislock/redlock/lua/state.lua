-- SPDX-License-Identifier: Apache-2.0
-- Functions for all cases but the ordinary ones: a free lock, and a lock of one exclusive lease.
-- Gets: digits of guard.lua. Gives: millis, scored, put, wished, add, wake.

-- millis returns the ms from at until till, rounded up.
local function millis(till, at) return math.max(0, math.ceil((till - at) / 1000)) end

-- scored returns the members of a sorted set that have not ended: member, end, member, end,
-- in the order of the ends. The ends are the scores, in microseconds. scored raises an error
-- if the key is not a sorted set; for a lock this is right.
local function scored(key, at)
  local all, live = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    local till = tonumber(all[i + 1])
    if till < 0 then redis.call('GET', key) end -- a set of package redislock: GET raises WRONGTYPE
    if till > at then
      live[#live + 1], live[#live + 2] = all[i], till
    end
  end
  return live
end

-- put sets the end of a member, removes members that have ended, and lets the set expire
-- when its last member ends.
local function put(key, member, till, live, at)
  local last = math.max(till, live[#live] or 0)
  redis.call('ZADD', key, digits(till), member)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', digits(at))
  redis.call('PEXPIRE', key, millis(last, at))
end

-- wished returns the ms until the last wish ends, and the number of wishes.
local function wished(wishes, at)
  local live = scored(wishes, at)
  return millis(live[#live] or at, at), #live / 2
end

-- add appends the state of a name to a reply: the number of locks, 1 if they are shared and
-- else 0, the record of the floor, the number of waiters, the number of wishes, the ms until
-- the last wish ends; then for each lock its value and the ms until it ends. Of shared locks
-- it appends the ones that end last, and no more than most.
local function add(reply, lock, value, live, most, floor, listeners, wishes, at)
  local from = math.max(1, #live - 2 * most + 1)
  local ms, wish = wished(wishes, at)
  for _, v in ipairs({value and 1 or (#live - from + 1) / 2, value and 0 or 1, floor or '',
      redis.call('ZCARD', listeners) + redis.call('ZCARD', queued(listeners)), wish, ms}) do
    reply[#reply + 1] = v
  end
  if value then
    reply[#reply + 1], reply[#reply + 2] = value, redis.call('PTTL', lock)
  end
  for i = from, #live, 2 do
    reply[#reply + 1], reply[#reply + 2] = live[i], millis(live[i + 1], at)
  end
  return reply
end

-- tell tells a waiter that the name may be free, and reports whether its client is there to hear it.
local function tell(queue, lease, channel)
  local client, seq = string.match(redis.call('GET', queue .. ':' .. lease) or '', '^(%S+) (%d+) ')
  return client and redis.call('PUBLISH', channel .. client, 'turn ' .. lease .. ' 0 ' .. seq .. ' -') > 0
end

-- wake tells the first waiter of the queue and all listeners that the name may be free. Waiters whose clients are gone leave.
local function wake(listeners, channel)
  local queue = queued(listeners)
  for lease in first, queue do
    if tell(queue, lease, channel) then break end
    dequeue(listeners, lease)
  end
  for _, listener in ipairs(redis.call('ZRANGE', listeners, 0, -1)) do
    if not tell(queue, listener, channel) then dequeue(listeners, listener) end
  end
end
