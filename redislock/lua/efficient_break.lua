-- SPDX-License-Identifier: Apache-2.0
-- efficient_break ends the lease of another client, of either mode or of another library,
-- and records who did it and why. A holder with Correctness also gets a message; other
-- holders do not listen.
-- KEYS: lock, broken
-- ARGV: lease, channel, who breaks it and why, for how many ms to remember that
-- Returns {1}, or {0, value or '', pttl ms} if the lease does not hold the lock.

local lock, broken = KEYS[1], KEYS[2]
local lease, channel, news, remember = unpack(ARGV)

local function owned(value) return value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ' end

-- A lock that several leases hold together is a sorted set; see queue.lua. This script sends
-- waiters no message: they notice the end of a lease at their next look.
local value, attempt, last = redis.pcall('GET', lock), nil, nil -- last: the time at which the last of the other leases ends
if type(value) == 'table' then
  local members = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if owned(members[i]) then
      attempt = members[i]
    elseif tonumber(members[i + 1]) > 0 then
      last = members[i + 1]
    end
  end
  value = ''
end
if not value or not attempt and not owned(value) then
  return {0, value or '', redis.call('PTTL', lock)}
end
redis.call('SET', broken, lease .. ' ' .. news, 'PX', remember)
if attempt then redis.call('ZREM', lock, attempt, '@' .. attempt) else redis.call('DEL', lock) end
if last then -- the key must end with the last lease: clients that use SET NX wait for it
  local at = redis.call('TIME')
  redis.call('PEXPIRE', lock, math.ceil(last / 1000 - at[1] * 1000 - at[2] / 1000))
end
local client = string.match(attempt or value, '^%S+ (%S+)')
if client then redis.pcall('PUBLISH', channel .. client, 'lost ' .. lease .. ' ' .. news) end
return {1}
