-- SPDX-License-Identifier: Apache-2.0
-- release ends a lease, or takes a waiter out of the queue.
-- KEYS: lock, floor, queue, epoch, ended
-- ARGV: lease, claim ms, channel, the waiter as in the queue or '', 1 if the answer
-- to a request for the lease did not come, or 0
-- Returns {1} if there was something to end, else {0}.

local lock, floor, queue, epoch, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lease, claim, channel, waiter, doubt = unpack(ARGV)

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
-- That request may be executed yet. Want of memory must not stop the release.
if doubt == '1' then redis.pcall('SET', ended, '', 'PX', ENDED) end
return {done}
