-- SPDX-License-Identifier: Apache-2.0
-- release ends a lease, or takes a waiter out of the queue.
-- KEYS: lock, floor, queue, epoch, ended
-- ARGV: lease, claim ms, channel, its attempt or '' if that is not known, 1 if it may be
-- in the queue, or 0, 1 if the answer to a request for the lease did not come, or 0
-- Returns {1} if there was something to end, else {0}.

local lock, floor, queue, epoch, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lease, claim, channel, attempt, waiting, doubt = unpack(ARGV)

local done, first = 0, false
if waiting == '1' then
  first = redis.call('ZRANGE', queue, 0, 0)[1] == attempt
  done = redis.call('ZREM', queue, attempt)
end
local value, freed, free = alone(lock), false, false
if owned(value, lease) then
  redis.call('DEL', lock)
  freed, free = true, true
elseif not value then
  if attempt == '' then attempt = find(lock, lease) or '' end
  freed = leave(lock, attempt, now())
end
if freed then done = 1 end
local line = (freed or first) and redis.call('ZRANGE', queue, 0, 1)
if line and line[1] then
  go(lock, floor, queue, epoch, claim, channel, now(), first, free, line)
end
-- That request may be executed yet. Want of memory must not stop the release.
if doubt == '1' then redis.pcall('SET', ended, '', 'PX', ENDED) end
return {done}
