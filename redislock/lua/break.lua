-- SPDX-License-Identifier: Apache-2.0
-- break ends the lease of somebody else, and tells its client.
-- KEYS: lock, floor, queue, epoch, broken, ended
-- ARGV: lease, claim ms, channel, who and why, how long to remember that in ms
-- Returns {1}, or {0, value or '', pttl ms} if that lease is not the holder.

local lock, floor, queue, epoch, broken, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local lease, claim, channel, news, remember = unpack(ARGV)

local value = redis.call('GET', lock)
if not owned(value, lease) then
  return {0, value or '', redis.call('PTTL', lock)}
end
redis.call('SET', broken, lease .. ' ' .. news, 'PX', remember)
redis.call('SET', ended, '', 'PX', ENDED)
local client = string.match(value, '^%S+ (%S+)')
if client then
  redis.call('PUBLISH', channel .. client, 'lost ' .. lease .. ' ' .. news)
end
free(lock, floor, queue, epoch, claim, channel)
return {1}
