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

local answers, rest, known, line = {}, n, nil, nil
if waiting == '0' and doubt == '0' then
  local busy
  if n == 1 then
    known = redis.call('MGET', KEYS[4], KEYS[2], KEYS[1]) -- a hand-off needs the floor and the record too
    line = redis.pcall('ZRANGE', KEYS[5], 0, 1) -- pcall: another program's key must not prevent a release
    busy = line[1]
  else
    known = redis.call('MGET', unpack(KEYS, 2 * n + 2, 3 * n + 1))
    busy = redis.call('EXISTS', unpack(KEYS, 3 * n + 2, 4 * n + 1)) > 0
  end
  local free = {}
  for i = 1, n do
    if owned(known[i], ARGV[7 + i]) and not (busy and (n == 1 or redis.call('EXISTS', KEYS[3 * n + 1 + i]) == 1)) then
      free[#free + 1], free[#free + 2], answers[i], rest = KEYS[2 * n + 1 + i], KEYS[3 * n + 1 + i] .. ':claim', {1}, rest - 1
    else
      answers[i] = false
    end
  end
  if free[1] then redis.call('DEL', unpack(free)) end
end
if rest == 0 then return answers end

-- with queue.lua: The rest, one lock after the other.
local function finish(lock, floor, queue, ended, lease)
  local attempt = record == '' and '' or join(lease, client, kind, record)
  local done, first = 0, false
  if waiting == '1' then
    first = redis.call('ZRANGE', queue, 0, 0)[1] == attempt
    done = redis.call('ZREM', queue, attempt)
    wrote = true
  end
  local read = n == 1 and known
  local value, freed, free = read and read[1], false, false
  if not read then value = alone(lock) end
  if owned(value, lease) then
    redis.call('DEL', lock, queue .. CLAIM) -- a waiter that releases its claim has not missed it
    wrote, freed, free = true, true, true
  elseif not value then
    if attempt == '' then attempt = find(lock, lease) or '' end
    freed = leave(lock, attempt, now())
    wrote = true
  end
  if freed then done = 1 end
  -- The first part has read line if this is the only lock. pcall: another program's key must
  -- not prevent a release.
  local line = (freed or first) and (line or redis.pcall('ZRANGE', queue, 0, 1))
  if line and line[1] then
    go(lock, floor, queue, KEYS[1], claim, channel, now(), first, free, line, read and free and {read[2], read[3]})
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
