-- SPDX-License-Identifier: Apache-2.0
-- release ends leases, or removes waiters from their queues. The part before "with
-- queue.lua" is for the ordinary case: each lease is exclusive, and its lock has no
-- waiters. It reads all locks together.
-- Gets: now of guard.lua; owned, alone of lease.lua. Its rest, all of queue.lua.
-- KEYS: as acquire
-- ARGV: claim ms; channel; client; kind; record, or '' if it is not known; 1 if the
-- leases may be in the queue, else 0; 1 if a request for the leases was not answered,
-- else 0; the leases
-- Returns for each lock {1} if it ended a lease or a wait, else {0}; or an error.

local n = math.floor((#KEYS - 1) / 4)
local claim, channel, client, kind, record, waiting, doubt = unpack(ARGV, 1, 7)

local answers, rest = {}, n
if waiting == '0' and doubt == '0' then
  local values = redis.call('MGET', unpack(KEYS, 2 * n + 2, 3 * n + 1))
  local busy = redis.call('EXISTS', unpack(KEYS, 3 * n + 2, 4 * n + 1)) > 0
  local free = {}
  for i = 1, n do
    local lock, queue = KEYS[2 * n + 1 + i], KEYS[3 * n + 1 + i]
    if owned(values[i], ARGV[7 + i]) and not (busy and (n == 1 or redis.call('EXISTS', queue) == 1)) then
      free[#free + 1], free[#free + 2], answers[i], rest = lock, queue .. ':claim', {1}, rest - 1
    end
  end
  if free[1] then redis.call('DEL', unpack(free)) end
end
if rest == 0 then return answers end

-- with queue.lua: The rest, one lock after the other.
local function finish(lock, floor, queue, ended, lease)
  local attempt = record == '' and '' or join(lease, client, kind, record)
  local done, first, freed = 0, false, false
  if waiting == '1' then
    first = redis.call('ZRANGE', queue, 0, 0)[1] == attempt
    done = redis.call('ZREM', queue, attempt)
    wrote = true
  end
  local value = alone(lock)
  if owned(value, lease) then
    redis.call('DEL', lock, queue .. CLAIM) -- a waiter that releases its claim has not missed it
    wrote, freed = true, true
  elseif not value then
    if attempt == '' then attempt = find(lock, lease) or '' end
    freed = leave(lock, attempt, now())
    wrote = true
  end
  if freed then done = 1 end
  -- pcall: another program's key must not prevent a release.
  if (freed or first) and redis.pcall('ZRANGE', queue, 0, 0)[1] then
    go(lock, floor, queue, KEYS[1], claim, channel, now(), first)
  end
  -- The server may still execute the request without an answer, so leave a tombstone. pcall: a
  -- lack of memory must not prevent the release.
  if doubt == '1' then redis.pcall('SET', ended, '', 'PX', ENDED) end
  return {done}
end

for i = 1, n do
  answers[i] = answers[i] or try(finish, KEYS[2 * n + 1 + i], KEYS[1 + i], KEYS[3 * n + 1 + i], KEYS[n + 1 + i], ARGV[7 + i])
end
return answers
