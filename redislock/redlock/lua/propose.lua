-- SPDX-License-Identifier: Apache-2.0
-- propose asks for one lock, or for more time, for each of several leases. A client may
-- repeat it. This part serves the ordinary case: free locks, each for one exclusive lease.
-- It reads all of them together.
-- Gets: now, digits, quarantine, beyond of guard.lua; common.lua. The rest also gets each of each.lua and all of state.lua.
-- KEYS: the epoch; then for all leases the floors, the marks that they have ended, the locks,
-- the listeners, the wishes
-- ARGV: the beginning of the record of the set of nodes, or ''; the mode: take or heal, with ' queued' after it if the
-- leases may be in the queues; shared (1 or 0); the TTL in ms; the client; the record; the leases; their tokens
-- Returns for each lease {1} if it has its lock and the floor has its token; {1, record of the floor} if it has its lock but
-- the floor has another token; {0, closed ms, ended (1 or 0), news, then the state that add appends} if it has no lock;
-- {-1} if the record of the epoch is missing; {-5, ttl} if the TTL is longer than MaxTTL;
-- {-6, the record of the set of nodes} if this begins in another way; or an error.

local n = (#KEYS - 1) / 5
local head, mode, shared, ttl, client, record = unpack(ARGV, 1, 6)
local epoch, at = KEYS[1], now()

local strange = other(epoch, head)
if strange then
  local answers = {}
  for i = 1, n do answers[i] = {-6, strange} end
  return answers
end

-- MGET returns nothing for a key that is not a string.
local answers, rest, known = {}, n, redis.call('MGET', unpack(KEYS, 1, 3 * n + 1))
if mode == 'take' and shared == '0' and quarantine(epoch, known[1], at, ttl) == 0 then
  local middle, tail = ' ' .. client .. ' ', ' ' .. digits(at) .. ' ' .. record
  for i = 1, n do
    local floor, news, value = known[1 + i], known[n + 1 + i], known[2 * n + 1 + i]
    local lease, token = ARGV[6 + i], ARGV[6 + n + i]
    -- NX: the lock may be taken after all, as a set of shared locks, or by a lease before this one in the batch.
    if not value and not news and (not floor or tonumber(token) > tonumber(string.match(floor, '^%d+') or 0)) and tonumber(token) <= LARGEST and
        redis.call('SET', KEYS[2 * n + 1 + i], lease .. middle .. token .. tail, 'PX', ttl, 'NX') then
      store(KEYS[1 + i], floor, token, lease, false)
      answers[i], rest = {1}, rest - 1
    end
  end
end
if rest == 0 then return answers end

-- with each.lua and state.lua: The rest, one lock after the other.
local queues
mode, queues = string.match(mode, '^(%a+)(.*)$')
local function ask(lock, floor, mark, listeners, wishes, lease, token)
  -- Among several leases, an earlier one may have changed this lock: read it again.
  local _, stored, news, value = unpack(n == 1 and known or redis.call('MGET', epoch, floor, mark, lock), 1, 4)
  local shared = shared == '1'
  local last, owner, stands, writer = standing(stored)
  if tonumber(token) > LARGEST then return redis.error_reply('ERR the token ' .. token .. ' is beyond 2^53') end
  local fits = tonumber(token) > tonumber(last) or tonumber(token) == tonumber(last) and owner == lease

  local live = value and {} or scored(lock, at)

  -- mine is the value of the lock that the lease has; till is the end of a shared one.
  local mine, till = owned(value, lease) and value, 0
  for i = 1, #live, 2 do
    if owned(live[i], lease) then
      mine, till = live[i], live[i + 1]
    end
  end

  local has, shut = false, 0
  if mine and not news then
    local no = beyond(known[1], ttl)
    if no then return {no, ttl} end
    has = true
  elseif not news and not value and (#live == 0 or shared) then
    shut = quarantine(epoch, known[1], at, ttl)
    if shut < 0 then return {shut, ttl} end
    if shut > 0 then
      has = false
    elseif mode == 'take' then
      has = not shared or wished(wishes, at) == 0
    else
      has = tonumber(token) >= tonumber(stands) or shared and tonumber(token) >= tonumber(writer)
    end
  end
  if not has then
    return add({0, math.ceil(shut / 1000), news and 1 or 0, news or ''}, lock, value, live, 16, stored, listeners, wishes, at)
  end
  if queues ~= '' then dequeue(listeners, lease) end

  local px = math.max(ttl, value and redis.call('PTTL', lock) or 0)
  till = math.max(till, at + px * 1000)
  if mine then
    -- PEXPIRE needs no memory. After it, a server without memory accepts the other writes.
    redis.call('PEXPIRE', lock, millis(math.max(till, live[#live] or 0), at))
  end
  -- Write the floor before a new lock: if the server refuses it for lack of memory, the
  -- server has recorded nothing.
  if fits then
    store(floor, stored, token, lease, shared)
  elseif mine then
    redis.call('PEXPIRE', floor, FLOOR)
  end

  local was = mine or lease .. ' ' .. client .. ' 0 ' .. digits(at) .. ' ' .. record
  local who, old, rest = string.match(was, '^(%S+ %S+) (%S+) (.*)$')
  local sure = fits or mode ~= 'take' -- heal: a quorum has granted the lease with this token
  local new = who .. ' ' .. (sure and token or old) .. ' ' .. rest
  if not shared then
    if new ~= mine then redis.call('SET', lock, new, 'PX', px) end
  else
    put(lock, new, till, live, at)
    if mine and new ~= mine then redis.call('ZREM', lock, mine) end
  end
  return fits and {1} or {1, stored}
end

for i = 1, n do
  answers[i] = answers[i] or each(n, ask, KEYS[2 * n + 1 + i], KEYS[1 + i], KEYS[n + 1 + i], KEYS[3 * n + 1 + i], KEYS[4 * n + 1 + i],
    ARGV[6 + i], ARGV[6 + n + i])
end
return answers
