-- SPDX-License-Identifier: Apache-2.0
-- end ends what a lease has or may get.
-- KEYS: lock, mark of the lease, listeners
-- ARGV: lease, bar (1 or 0), news or '', how long to remember that in ms, channel, message
-- Returns {1} if the lease had the lock, else {0}.

local lock, mark, listeners = unpack(KEYS)
local lease, bar, news, remember, channel, message = unpack(ARGV)

-- A server without memory accepts the mark only after something was deleted. If
-- there is nothing it refuses, and is asked again.
local value = redis.call('GET', lock)
local had = owned(value, lease)
if had then redis.call('DEL', lock) end
if bar == '1' or news ~= '' then
  local old = redis.call('GET', mark)
  redis.call('SET', mark, old and old ~= '' and old or news, 'PX', remember)
end
if not had then return {0} end
local holder = news ~= '' and string.match(value, '^%S+ (%S+)')
if holder then redis.call('PUBLISH', channel .. holder, 'lost ' .. lease .. ' ' .. news) end
for _, client in ipairs(redis.call('SMEMBERS', listeners)) do
  if redis.call('PUBLISH', channel .. client, message) == 0 then
    redis.call('SREM', listeners, client)
  end
end
return {1}
