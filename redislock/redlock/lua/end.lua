-- SPDX-License-Identifier: Apache-2.0
-- end ends what leases have or may get. This part is the ordinary case: each lease is
-- exclusive, and its name has no listeners. It reads all of them together.
-- Gets: now of guard.lua; common.lua. Its rest, each of each.lua and all of state.lua.
-- KEYS: epoch; of all locks what marks the leases as ended, then the locks, the listeners,
-- the wishes, the floors
-- ARGV: for how many ms the leases are remembered, or 0, news or '', held (1 or 0),
-- channel; the leases
-- Returns for each lease {1} if it had a lock, else {0}; or an error.

local n = (#KEYS - 1) / 5
local remember, news, held, channel = unpack(ARGV, 1, 4)

local answers, rest = {}, n
if remember == '0' then
  local known = redis.call('MGET', unpack(KEYS, n + 2, 2 * n + 1))
  local busy = redis.call('EXISTS', unpack(KEYS, 2 * n + 2, 3 * n + 1)) > 0
  local free = {}
  for i = 1, n do
    local lock = KEYS[n + 1 + i]
    if owned(known[i], ARGV[4 + i]) and not free[lock] and not (busy and (n == 1 or redis.call('EXISTS', KEYS[2 * n + 1 + i]) == 1)) then
      answers[i], free[lock], rest = {1}, true, rest - 1
      free[#free + 1] = lock
      if held == '1' then free[#free + 1] = KEYS[3 * n + 1 + i] end
    else
      answers[i] = false
    end
  end
  if free[1] then redis.call('DEL', unpack(free)) end
end

-- The token of an attempt that has failed does not stand: no lease had it. Recording
-- that takes memory; a lack of that must not keep locks from being given back.
local function fail(floor, lease)
  local record = redis.call('GET', floor)
  local token, owner, _, _, before, writer = standing(record)
  if owner == lease then
    redis.pcall('SET', floor, token .. ' ' .. lease .. ' x ' .. before .. ' ' .. writer, 'PX', FLOOR)
  end
end
if held ~= '1' then
  for i = 1, n do
    if answers[i] then fail(KEYS[4 * n + 1 + i], ARGV[4 + i]) end
  end
end
if rest == 0 then return answers end

-- with each.lua and state.lua: The rest, one lock after the other.
local function finish(lock, mark, listeners, wishes, floor, lease)
  -- A server without memory accepts the mark only after something was deleted. If there
  -- is nothing to delete it refuses, and the client asks again.
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
