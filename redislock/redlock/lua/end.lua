-- SPDX-License-Identifier: Apache-2.0
-- end ends what a lease has or may get.
-- KEYS: lock, mark of the lease, listeners, wishes
-- ARGV: lease, bar (1 or 0), news or '', how long to remember that in ms, held (1 or
-- 0), channel, message
-- Returns {1} if the lease had a lock, else {0}.

local lock, mark, listeners, wishes = unpack(KEYS)
local lease, bar, news, remember, held, channel, message = unpack(ARGV)

-- A server without memory accepts the mark only after something was deleted. If
-- there is nothing it refuses, and is asked again.
local value, at = redis.call('MGET', lock)[1], nil
local live, left, mine = {}, 0, nil
if not value then
  at = now()
  live = scored(lock, at)
elseif owned(value, lease) then
  mine = value
  if held == '1' then redis.call('DEL', lock, wishes) else redis.call('DEL', lock) end
end
for i = 1, #live, 2 do
  if owned(live[i], lease) then
    mine = live[i]
    redis.call('ZREM', lock, mine)
  else
    left = live[i + 1]
  end
end
if mine and left > 0 then redis.call('PEXPIRE', lock, millis(left, at)) end
if bar == '1' or news ~= '' then
  local old = redis.call('GET', mark)
  redis.call('SET', mark, old and old ~= '' and old or news, 'PX', remember)
end
if not mine then return {0} end
local holder = news ~= '' and string.match(mine, '^%S+ (%S+)')
if holder then redis.call('PUBLISH', channel .. holder, 'lost ' .. lease .. ' ' .. news) end
if left == 0 then wake(listeners, channel, message) end
return {1}
