-- SPDX-License-Identifier: Apache-2.0
-- break of Efficiency ends the lease of somebody else, of either mode or of another
-- library, and leaves word of it. Only a holder of Correctness listens.
-- KEYS: lock, broken
-- ARGV: lease, channel, who and why, how long to remember that in ms
-- Returns {1}, or {0, value or '', pttl ms} if that lease is not the holder.

local lock, broken = KEYS[1], KEYS[2]
local lease, channel, news, remember = unpack(ARGV)

local value = redis.call('GET', lock)
if not value or value ~= lease and string.sub(value, 1, #lease + 1) ~= lease .. ' ' then
  return {0, value or '', redis.call('PTTL', lock)}
end
redis.call('SET', broken, lease .. ' ' .. news, 'PX', remember)
redis.call('DEL', lock)
local client = string.match(value, '^%S+ (%S+)')
if client then redis.pcall('PUBLISH', channel .. client, 'lost ' .. lease .. ' ' .. news) end
return {1}
