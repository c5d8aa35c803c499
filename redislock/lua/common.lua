-- SPDX-License-Identifier: Apache-2.0
-- Every script of redislock begins with guard.lua and with this file.

local FLOOR = 86400000 -- how long a token is remembered, in ms
local QUEUE = 300000   -- how long a queue that nobody looks at lives, in ms
local ENDED = 300000   -- how long a request may be under way to the server, in ms

-- owned says whether value, that of a lock, is that of the lease.
local function owned(value, lease)
  return value and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end

-- give makes the lease the holder for px ms and returns its token, which is
-- greater than last. The floor is written first: what is refused for lack of
-- memory has then recorded nothing.
local function give(lock, floor, last, lease, client, record, at, px)
  last = tonumber(last) or 0
  local granted = digits(at)
  local token = at > last and granted or digits(last + 1)
  redis.call('SET', floor, token, 'PX', FLOOR)
  local value = lease .. ' ' .. client .. ' ' .. token .. ' ' .. granted .. ' ' .. record
  redis.call('SET', lock, value, 'PX', px)
  return token
end

-- lengthen makes the lock live for ttl ms at least, and returns how many were
-- left. A request that was given up may come late, after one for a longer TTL.
local function lengthen(lock, ttl)
  local left = redis.call('PTTL', lock)
  if tonumber(ttl) > left then redis.call('PEXPIRE', lock, ttl) end
  return left
end

local function member(m) return string.match(m, '^(%S+) (%S+) (.*)$') end

-- announce tells the first live waiter that it is the first now, and in how many
-- ms the lock will expire. Those whose client hears nothing leave the queue.
local function announce(lock, queue, channel)
  local head = redis.call('ZRANGE', queue, 0, 0)[1]
  while head do
    local lease, client = member(head)
    if redis.call('PUBLISH', channel .. client, 'first ' .. lease .. ' ' .. redis.call('PTTL', lock)) > 0 then
      return
    end
    redis.call('ZREM', queue, head)
    head = redis.call('ZRANGE', queue, 0, 0)[1]
  end
end

-- hand gives the lock to the first live waiter for claim ms, in which it has to
-- make itself known, and returns true; false if there is none. It returns nil
-- when the turn is that of the lease mine, which is asking and needs no message.
local function hand(lock, floor, last, queue, at, claim, channel, mine)
  local head = redis.call('ZRANGE', queue, 0, 0)[1]
  while head do
    redis.call('ZREM', queue, head)
    local lease, client, record = member(head)
    if lease == mine then return nil end
    if redis.call('PUBLISH', channel .. client, 'grant ' .. lease .. ' ' .. lock) > 0 then
      give(lock, floor, last, lease, client, record, at, claim)
      announce(lock, queue, channel)
      return true
    end
    head = redis.call('ZRANGE', queue, 0, 0)[1]
  end
  return false
end

-- free ends the lease that holds the lock.
local function free(lock, floor, queue, epoch, claim, channel)
  if redis.call('EXISTS', queue) == 1 then
    local at, known = now(), redis.call('MGET', floor, epoch)
    if closed(epoch, known[2], at) == 0 and hand(lock, floor, known[1], queue, at, claim, channel) then return end
  end
  redis.call('DEL', lock)
end
