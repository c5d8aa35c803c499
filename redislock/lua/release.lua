-- SPDX-License-Identifier: Apache-2.0
-- release ends a lease, or takes a waiter out of the queue.
-- KEYS: lock, floor, queue, epoch
-- ARGV: lease, claim ms, channel, the waiter as in the queue or ''
-- Returns {1} if there was something to end, else {0}.

local lock, floor, queue, epoch = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, claim, channel, waiter = unpack(ARGV)

local done = 0
if waiter ~= '' then
  local first = redis.call('ZRANGE', queue, 0, 0)[1] == waiter
  done = redis.call('ZREM', queue, waiter)
  if first then announce(lock, queue, channel) end
end
if owned(redis.call('GET', lock), lease) then
  free(lock, floor, queue, epoch, claim, channel)
  done = 1
end
return {done}
