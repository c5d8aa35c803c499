-- SPDX-License-Identifier: Apache-2.0
-- enqueue puts a waiter for an exclusive lock in the queue, or a waiter for a shared lock among the listeners.
-- This part serves the ordinary case: one exclusive lease has the lock, and there are no listeners and no wishes.
-- Gets: now, beyond of guard.lua; common.lua. The rest also gets state.lua.
-- KEYS: the epoch, the lock, the floor, the mark that the lease has ended, the listeners, the wishes
-- ARGV: the beginning of the record of the set of nodes, or ''; the lease; its place, or - for a listener; the token that it
-- would propose; the number of the request; the TTL in ms; the client; the record; how long to remember the waiter in ms;
-- how long its wish to have the name alone lasts in ms, or 0 for none
-- Returns {1, how many waiters are before the lease in the queue, then the state that add appends}, or {-1}, {-5, ttl} or
-- {-6, record} as propose does

local epoch, lock, floor, mark, listeners, wishes = unpack(KEYS)
local head, lease, place, token, seq, ttl, client, record, remember, wish = unpack(ARGV)

local PLACES = '6000' -- how long a place lasts at most, in ms: three times lookEvery of store.go
local queue = queued(listeners)
local known, value, last, news = unpack(redis.call('MGET', epoch, lock, floor, mark), 1, 4)
local waits = not news and not owned(value, lease)
if waits then
  local strange = other(epoch, head)
  if strange then return {-6, strange} end
  if beyond(known, ttl) then return {-5, ttl} end
  -- If the server has no memory for the place, the waiter gets no message, and looks.
  local line = place == '-' and listeners or queue
  local added = redis.pcall('ZADD', line, place == '-' and 0 or place, lease)
  if type(added) == 'number' then
    redis.call('PEXPIRE', line, PLACES)
    redis.pcall('SET', queue .. ':' .. lease, client .. ' ' .. seq .. ' ' .. token .. ' ' .. ttl .. ' ' .. head .. ' ' .. record, 'PX', remember)
  elseif not string.find(added.err, 'OOM', 1, true) then
    return added
  end
end
if value and wish == '0' and redis.call('EXISTS', listeners, wishes) == 0 then
  return {1, redis.call('ZRANK', queue, lease) or 0, 1, 0, last or '', redis.call('ZCARD', queue), 0, 0, value, redis.call('PTTL', lock)}
end

-- with state.lua: The rest, with readers or without a lock.
local at = now()
if waits and wish ~= '0' then
  pcall(put, wishes, lease, at + wish * 1000, scored(wishes, at), at) -- without memory there is no wish
end
return add({1, redis.call('ZRANK', queue, lease) or 0}, lock, value, value and {} or scored(lock, at), 16, last, listeners, wishes, at)
