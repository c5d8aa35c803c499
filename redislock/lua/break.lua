-- SPDX-License-Identifier: Apache-2.0
-- break ends the lease of another client, and notifies that client.
-- Gets: now of guard.lua; lease.lua and queue.lua.
-- KEYS: lock, floor, queue, epoch, broken, ended
-- ARGV: lease, claim ms, channel, who breaks it and why, for how many ms to remember that
-- Returns {1}, or {0, value or '', pttl ms, the leases that hold the lock together, with
-- scores, or {}} if the lease does not hold the lock.

local lock, floor, queue, epoch, broken, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local lease, claim, channel, news, remember = unpack(ARGV)

return try(function()
  local value, at = alone(lock), now()
  local attempt = not value and sharers(lock, at) > 0 and find(lock, lease)
  if not owned(value, lease) and not attempt then
    return {0, value or '', redis.call('PTTL', lock), value and {} or redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES')}
  end
  redis.call('SET', broken, lease .. ' ' .. news, 'PX', remember)
  wrote = true
  redis.call('SET', ended, '', 'PX', ENDED)
  local client = string.match(value or attempt, '^%S+ (%S+)')
  if client then
    -- Holders listen on a channel without a hash tag. In a cluster all nodes pass its messages on.
    redis.call('PUBLISH', string.match(channel, '^[^{]*') .. client, 'lost ' .. lease .. ' ' .. news)
  end
  if value then redis.call('DEL', lock) else leave(lock, attempt, at) end
  if redis.call('EXISTS', queue) == 1 then
    go(lock, floor, queue, epoch, claim, channel, at, false)
  end
  return {1}
end)
