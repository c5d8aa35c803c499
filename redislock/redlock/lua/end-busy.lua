-- SPDX-License-Identifier: Apache-2.0
-- The rest of end, one lock after the other.

local function finish(lock, mark, listeners, wishes, floor, lease)
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
  if remember ~= '0' then
    local old = redis.call('GET', mark)
    redis.call('SET', mark, old and old ~= '' and old or news, 'PX', remember)
  end
  if held ~= '1' then fail(floor, lease) end
  if not mine then return {0} end
  local holder = news ~= '' and string.match(mine, '^%S+ (%S+)')
  if holder then redis.call('PUBLISH', channel .. holder, 'lost ' .. lease .. ' ' .. news) end
  if left == 0 then wake(lock, listeners, channel) end
  return {1}
end

for i = 1, n do
  answers[i] = answers[i] or each(n, finish, KEYS[n + 1 + i], KEYS[1 + i], KEYS[2 * n + 1 + i], KEYS[3 * n + 1 + i], KEYS[4 * n + 1 + i], ARGV[4 + i])
end
return answers
