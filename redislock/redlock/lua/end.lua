-- SPDX-License-Identifier: Apache-2.0
-- end ends what leases have or may get. This is the ordinary case: each has its lock for
-- itself, and nobody listens. All of them are looked at together.
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

-- What an attempt stored that has failed does not stand: nobody had a lease with that token.
-- To say so takes memory, which must not keep locks from being given back.
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
