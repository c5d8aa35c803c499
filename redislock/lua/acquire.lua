-- SPDX-License-Identifier: Apache-2.0
-- acquire asks for locks, each for one lease, claims what was handed over, and looks
-- again while waiting. To repeat it is harmless. This is the ordinary case: locks for which
-- nobody waits are free. All of them are looked at together.
-- KEYS: epoch; of all locks the floors, then what marks the leases as ended, the locks, the queues
-- ARGV: client, kind, record, ttl ms, claim ms, channel, wait (1 or 0), place or ''; the leases
-- Returns for each lock {1, token, how many after it are set aside for the lease, 1 if somebody waits for the lock, or
-- 0, server time}; {0, value or '', pttl ms, rank or -1, place or '', closed ms,
-- those who hold it together, with scores, or {}, server time}; {-1} if the record of the epoch is missing; {-5, ttl} if that is longer than MaxTTL; {-3} if
-- the lease has ended already; {-4, n} if n slots are shared out, and another number was asked for; or an error.

local n = math.floor((#KEYS - 1) / 4) -- in a cluster there is one key more
local client, kind, record, ttl, claim, channel, wait, place = unpack(ARGV, 1, 8)
local epoch, known, at = KEYS[1], redis.call('MGET', unpack(KEYS, 1, 3 * n + 1)), now()
local shut = closed(epoch, known[1], at, ttl)

local answers, rest = {}, n
if shut == 0 and kind == 'exclusive' then
  local busy = redis.call('EXISTS', unpack(KEYS, 2 * n + 2, 4 * n + 1)) > 0
  for i = 1, n do
    local ended, lock, queue = known[n + 1 + i], KEYS[2 * n + 1 + i], KEYS[3 * n + 1 + i]
    local last = tonumber(known[1 + i] or 0) -- nil if another program wrote it
    if last and not ended and not (busy and (n == 1 or redis.call('EXISTS', lock, queue) > 0)) then
      -- NX, as the same lock may be here twice.
      local token, spare = hold(lock, KEYS[1 + i], at, last, ttl, ARGV[8 + i], client, record, 'NX')
      answers[i] = token and {1, token, spare, 0, at}
    end
    if answers[i] then rest = rest - 1 else answers[i] = false end
  end
end
if rest == 0 then return answers end
