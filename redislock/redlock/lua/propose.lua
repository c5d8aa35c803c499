-- SPDX-License-Identifier: Apache-2.0
-- propose asks for locks, or for more time, or that they be shared, each for one lease.
-- To repeat it is harmless. This is the ordinary case: locks that are free, each for one lease
-- for itself. All of them are looked at together.
-- KEYS: epoch; of all locks the floors, then what marks the leases as ended, the locks, the
-- listeners, the wishes
-- ARGV: mode (take, extend, heal), shared (1 or 0), from or '', ttl ms, client, record,
-- channel; the leases; their tokens
-- Returns for each lock {1} if the lease has it, and the token is stored; {1, record of the floor} if the
-- lease has it; {0, closed ms, ended (1 or 0), news, and as add says}; {-1} if the record of the epoch
-- is missing; {-5, ttl} if that is longer than MaxTTL; or an error.

local n = (#KEYS - 1) / 5
local mode, shared, from, ttl, client, record, channel = unpack(ARGV, 1, 7)
local epoch, at = KEYS[1], now()

-- MGET takes what is no string for nothing.
local answers, rest, known = {}, n, redis.call('MGET', unpack(KEYS, 1, 3 * n + 1))
if mode == 'take' and shared == '0' and from == '' and closed(epoch, known[1], at, ttl) == 0 then
  local middle, tail = ' ' .. client .. ' ', ' ' .. digits(at) .. ' ' .. record
  for i = 1, n do
    local floor, news, value = known[1 + i], known[n + 1 + i], known[2 * n + 1 + i]
    local lease, token = ARGV[7 + i], ARGV[7 + n + i]
    -- What lies in place of a free lock, which may be here twice, SET sees.
    if not value and not news and (not floor or tonumber(token) > tonumber(string.match(floor, '^%d+') or 0)) and tonumber(token) <= LARGEST and
        redis.call('SET', KEYS[2 * n + 1 + i], lease .. middle .. token .. tail, 'PX', ttl, 'NX') then
      store(KEYS[1 + i], floor, token, lease, false)
      answers[i], rest = {1}, rest - 1
    else
      answers[i] = false
    end
  end
end
if rest == 0 then return answers end
