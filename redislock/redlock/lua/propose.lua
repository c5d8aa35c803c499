-- SPDX-License-Identifier: Apache-2.0
-- propose asks for locks, or for more time, or that they be shared, each for one lease.
-- To repeat it is harmless. This is the ordinary case: locks that are free, each for one lease
-- for itself. All of them are looked at together.
-- KEYS: epoch; the locks
-- ARGV: mode (take, extend, heal), shared (1 or 0), from or '', ttl ms, client, record,
-- channel; the leases; their tokens
-- Returns for each lock {1} if the lease has it, and the token is stored; {1, floor} if the
-- lease has it; {0, closed ms, ended (1 or 0), news, and as add says}; {-1} if the record of the epoch
-- is missing; or an error.

local n = #KEYS - 1
local mode, shared, from, ttl, client, record, channel = unpack(ARGV, 1, 7)
local epoch, at = KEYS[1], now()

-- look returns the epoch, and of locks the values, the floors, and what marks the leases
-- as ended, and the keys of all that. MGET takes what is no string for nothing.
local function look(first, last)
  local keys, k = {epoch}, 1
  for i = first, last do
    local lock = KEYS[1 + i]
    keys[k + 1], keys[k + 2], keys[k + 3] = lock, lock .. ':token', lock .. ':ended:' .. ARGV[7 + i]
    k = k + 3
  end
  return redis.call('MGET', unpack(keys)), keys
end

local answers, rest, known, keys = {}, n, look(1, n)
if mode == 'take' and shared == '0' and from == '' and closed(epoch, known[1], at) == 0 then
  local middle, tail = ' ' .. client .. ' ', ' ' .. digits(at) .. ' ' .. record
  for i = 1, n do
    local value, floor, news = unpack(known, 3 * i - 1, 3 * i + 1)
    local lease, token = ARGV[7 + i], ARGV[7 + n + i]
    -- What lies in place of a free lock, which may be here twice, SET sees.
    if not value and not news and (not floor or tonumber(token) > tonumber(string.match(floor, '^%d+') or 0)) and
        redis.call('SET', keys[3 * i - 1], lease .. middle .. token .. tail, 'PX', ttl, 'NX') then
      redis.call('SET', keys[3 * i], token .. ' ' .. lease, 'PX', FLOOR)
      answers[i], rest = {1}, rest - 1
    else
      answers[i] = false
    end
  end
end
if rest == 0 then return answers end
