-- SPDX-License-Identifier: Apache-2.0
-- enqueue puts a waiter for an exclusive lock in the queue, or one for a shared lock to the listeners, or takes it out. This part
-- is the ordinary case: one lease has the lock, and everybody else is in the queue.
-- Gets: now, beyond of guard.lua; common.lua. Its rest, state.lua.
-- KEYS: epoch, lock, floor, what marks the lease as ended, listeners, wishes
-- ARGV: what the record of the set of nodes begins with, or ''; lease, place or - of a listener, token, number of the request, ttl ms, client, record, for how many ms that is remembered or 0
-- Returns {1, how many are before the lease in the queue, and as add says}, or {-1}, {-5, ttl} or {-6, record} as propose does

local epoch, lock, floor, mark, listeners, wishes = unpack(KEYS)
local head, lease, place, token, seq, ttl, client, record, remember = unpack(ARGV)

local PLACES = '6000' -- how long a place lasts at most, in ms: wait.go's three looks
local queue = queued(listeners)
local known, value, last, news = unpack(redis.call('MGET', epoch, lock, floor, mark), 1, 4)
if remember == '0' then
  dequeue(listeners, lease)
elseif not news and not owned(value, lease) then
  local strange = other(epoch, head)
  if strange then return {-6, strange} end
  if beyond(known, ttl) then return {-5, ttl} end
  -- Without memory for that the waiter looks.
  local line = place == '-' and listeners or queue
  local added = redis.pcall('ZADD', line, place == '-' and 0 or place, lease)
  if type(added) == 'number' then
    redis.call('PEXPIRE', line, PLACES)
    redis.pcall('SET', queue .. ':' .. lease, client .. ' ' .. seq .. ' ' .. token .. ' ' .. ttl .. ' ' .. head .. ' ' .. record, 'PX', remember)
  elseif not string.find(added.err, 'OOM', 1, true) then
    return added
  end
end
if value and redis.call('EXISTS', listeners, wishes) == 0 then
  return {1, redis.call('ZRANK', queue, lease) or 0, 1, 0, last or '', redis.call('ZCARD', queue), 0, 0, value, redis.call('PTTL', lock)}
end

-- with state.lua: The rest, with readers or without a lock.
local at = now()
return add({1, redis.call('ZRANK', queue, lease) or 0}, lock, value, value and {} or scored(lock, at), 16, last, listeners, wishes, at)
