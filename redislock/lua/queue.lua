-- SPDX-License-Identifier: Apache-2.0
-- Functions for locks with waiters, and for locks that several leases share.
-- Gets: boot, publish, now, digits, quarantine of guard.lua; all of lease.lua.
-- Gives: try, wrote, join, parse, sharers, stay, leave, find, broken, highest, state, fits, left, give, pass, admit, go; ENDED, QUEUE, CLAIM.

local QUEUE = 300000 -- TTL of a queue, in ms; each look of a waiter begins it anew
local ENDED = 300000 -- TTL of a tombstone, in ms: how late a request may reach the server

-- The key QUEUE:claim names the lease of the last claim. A waiter that renews its claim deletes
-- the key. The key lives for MISSED ms after the end of the claim; in that time it says that the
-- claim was missed. LATE ms after the end of the claim, each waiter that is alive has looked.
local CLAIM = ':claim'
local MISSED = 30000
local LATE = 2000

-- wrote is true after the first write for a lock. If the request fails, it tells the client whether
-- the server may have recorded something.
local wrote

-- try calls f for one lock. It turns an error into an answer, so that the call goes on with the
-- other locks.
local function try(f, ...)
  wrote = false
  local ok, answer = pcall(f, ...)
  if ok then return answer end
  local text = type(answer) == 'table' and answer.err or tostring(answer)
  return {err = text .. (wrote and ' script: something may be written' or ' script: nothing was written')}
end

-- An attempt is the text 'lease client kind record'. It stands for a lease in the queue,
-- and in a lock that several leases hold together. kind is exclusive, shared, or the
-- number of slots.
local function join(lease, client, kind, record) return lease .. ' ' .. client .. ' ' .. kind .. ' ' .. record end

local function parse(attempt) return string.match(attempt, '^(%S+) (%S+) (%S+) (.*)$') end

-- A lock that several leases hold together is a sorted set. Each lease has two members.
-- The first is the attempt; its score is the end of the lease. The second is @ and the
-- attempt; its score is the token, negated. So a request about one lease takes O(log n),
-- and the lock needs one key only.

-- sharers removes the leases that have ended, and returns how many leases hold the lock
-- together, and their kind.
local function sharers(lock, at)
  local last = redis.call('ZRANGE', lock, -1, -1)[1]
  if not last then return 0 end
  local _, _, kind = parse(last)
  if not kind then redis.call('GET', lock) end -- another program's sorted set: fails with WRONGTYPE
  for _, attempt in ipairs(redis.call('ZRANGEBYSCORE', lock, 0, digits(at))) do
    redis.call('ZREM', lock, attempt, '@' .. attempt)
  end
  local n = redis.call('ZCARD', lock) / 2
  if n == 0 then return 0 end
  return n, kind
end

-- stay is lengthen for one of the leases that hold a lock together. It returns nil if the
-- lease has ended.
local function stay(lock, attempt, ttl, at)
  local ends = tonumber(redis.call('ZSCORE', lock, attempt) or nil)
  if not ends or ends <= at then return nil end
  -- PEXPIRE comes first: it needs no memory, and Redis checks maxmemory only before the first
  -- write of a script.
  redis.call('PEXPIRE', lock, math.max(ttl, redis.call('PTTL', lock)))
  if at + ttl * 1000 > ends then redis.call('ZADD', lock, digits(at + ttl * 1000), attempt) end
  return math.floor((ends - at) / 1000)
end

-- leave removes one of the leases that hold a lock together, and reports whether it was
-- still running.
local function leave(lock, attempt, at)
  local ends = tonumber(redis.call('ZSCORE', lock, attempt) or nil)
  if not ends then return false end
  redis.call('ZREM', lock, attempt, '@' .. attempt)
  -- The key must end with the last of the other leases, as other libraries wait for its end.
  local last = redis.call('ZRANGE', lock, -1, -1, 'WITHSCORES')[2]
  if last then redis.call('PEXPIRE', lock, math.ceil((last - at) / 1000)) end
  return ends > at
end

-- find returns the attempt of one of the leases that hold a lock together. It reads all of
-- them.
local function find(lock, lease)
  for _, attempt in ipairs(redis.call('ZRANGEBYSCORE', lock, 0, '+inf')) do
    if owned(attempt, lease) then return attempt end
  end
end

-- broken returns who has broken a lease and why, or '' if nobody did.
local function broken(beside, lease)
  local news = redis.pcall('GET', beside .. ':broken')
  return type(news) == 'string' and owned(news, lease) and string.sub(news, #lease + 2) or ''
end

-- highest returns the token that a floor holds, or 0 if there is no floor.
local function highest(floor)
  return tonumber(floor or 0) or error({err = 'WRONGTYPE the floor of the tokens is no number'})
end

-- state returns a table about a lock for the functions below. n is the number of its
-- holders; the caller sets n and kind, the kind of the holders.
local function state(lock, floor, queue, at, last, claim, channel)
  return {lock = lock, floor = floor, queue = queue, at = at, last = last, claim = claim, channel = channel, n = 0}
end

-- fits reports whether a lease of a kind may hold the lock together with the present holders.
local function fits(s, kind)
  return s.n == 0 or kind == s.kind and (kind == 'shared' or s.n < (tonumber(kind) or 1))
end

-- left returns in how many ms a lease of a kind can be granted if no holder renews.
local function left(s, kind)
  if s.n > 0 and kind == s.kind and tonumber(kind) then -- all slots are in use: the first that ends
    local first = redis.call('ZRANGEBYSCORE', s.lock, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    return math.max(0, math.ceil((first - s.at) / 1000))
  end
  return redis.call('PTTL', s.lock)
end

-- give grants the lock for px ms and returns the token, which is greater than s.last.
local function give(s, px, lease, client, kind, record)
  local text, top
  if kind == 'exclusive' then
    text, s.spare, top = hold(s.lock, s.floor, s.at, s.last, px, lease, client, record)
  else
    s.spare, top = 0, upcoming(s.at, s.last)
    text = digits(top)
    redis.call('SET', s.floor, text, 'PX', FLOOR)
    local attempt = join(lease, client, kind, record)
    redis.call('ZADD', s.lock, digits(s.at + px * 1000), attempt, digits(-top), '@' .. attempt)
    lengthen(s.lock, px)
  end
  wrote, s.last, s.kind, s.n = true, top, kind, s.n + 1
  return text
end

-- terms returns the end of a hand-off message: what a waiter needs to use the lock during its claim, and the lock, whose
-- key may contain spaces.
local function terms(s, token, waited)
  return table.concat({token, digits(s.at), s.claim, boot == '' and '-' or boot, s.spare, waited and 1 or 0, s.lock}, ' ')
end

-- hears reports whether a client has a subscription at this server. PUBLISH returns the
-- number of receivers too, but too late: a waiter must have the lock before it gets the
-- message. And in a cluster that number leaves out subscriptions at replicas, which also
-- get the message.
local HEARERS = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local function hears(s, client) return redis.call('PUBSUB', HEARERS, s.channel .. client)[2] > 0 end

-- sweep removes dead waiters from the head of the queue: those whose clients have no
-- subscription. It stops at the first waiter that is alive, and at the caller, me. It handles a
-- hundred waiters with three commands: with a few commands for each waiter, thousands of dead
-- waiters would block the server for long. It returns the first two waiters that are left.
local function sweep(s, me)
  local n
  repeat
    local line, channels, gone = redis.call('ZRANGE', s.queue, 0, 99), {}, {}
    for i, attempt in ipairs(line) do channels[i] = s.channel .. string.match(attempt, '^%S+ (%S+)') end
    n = #line
    local heard = n > 0 and redis.call('PUBSUB', HEARERS, unpack(channels))
    for i = 1, n do
      if line[i] == me or heard[2 * i] > 0 then break end
      gone[i] = line[i]
    end
    if gone[1] then redis.call('ZREM', s.queue, unpack(gone)) end
  until n == 0 or #gone < n
  return unpack(redis.call('ZRANGE', s.queue, 0, 1))
end

-- tell sends a message to a waiter.
local function tell(s, client, lease, word, what)
  redis.call(publish, s.channel .. client, word .. ' ' .. lease .. ' ' .. what)
end

-- pass lets the caller, me, overtake the waiters before it if the last claim was missed. Otherwise
-- each paused waiter at the head of the queue would get a claim, one after the other, and the lock
-- would be idle all that time. pass returns the token; false if the caller must leave the lock to
-- waiters; or nil if no claim was missed. A caller that does not wait must leave the lock to
-- waiters until LATE ms after the end of the claim.
-- pass removes the waiters before the caller from the queue, and tells them to look. A waiter that
-- is alive then returns to its place; a paused one costs nothing until it does.
local function pass(s, me, px, waits)
  local over = MISSED - redis.call('PTTL', s.queue .. CLAIM)
  local head = over >= 0 and over <= MISSED and redis.call('ZRANGE', s.queue, 0, 0)[1]
  if not head or head == me then return nil end
  local _, _, mine = parse(me)
  local _, _, first = parse(head)
  if not fits(s, mine) or not fits(s, first) then return nil end
  if not waits and over < LATE then return false end
  for _, attempt in ipairs(redis.call('ZRANGE', s.queue, 0, 99)) do
    if attempt == me then break end
    local lease, client = parse(attempt)
    tell(s, client, lease, 'first', -2)
    redis.call('ZREM', s.queue, attempt)
  end
  redis.call('ZREM', s.queue, me)
  redis.call('DEL', s.queue .. CLAIM)
  return give(s, px, parse(me))
end

-- admit goes through the queue from its head. It grants the lock to each waiter that can
-- have it now, for the time of the claim; the waiter has to renew within that time. It
-- removes waiters whose client has no subscription. It stops at the first waiter that
-- cannot have the lock yet. It tells this waiter in how many ms its turn may come, if the
-- waiter has just become the first (moved), or if it keeps the caller out. The caller, me,
-- gets no message, and gets the lock for px ms. admit returns the caller's token if its
-- turn has come: it was the first, or the queue is empty.
local function admit(s, moved, me, px)
  local mine, token = me and string.match(me, '^%S+ %S+ (%S+)'), nil
  local head, behind = unpack(redis.call('ZRANGE', s.queue, 0, 1))
  local waited = head
  while head do
    local lease, client, kind = parse(head)
    local dead = false
    if fits(s, kind) then
      redis.call('ZREM', s.queue, head)
      if head == me then
        token = give(s, px, parse(head))
      elseif hears(s, client) then -- give records the grant before tell announces it
        tell(s, client, lease, 'grant', terms(s, give(s, s.claim, parse(head)), behind))
        redis.call('SET', s.queue .. CLAIM, lease, 'PX', s.claim + MISSED)
      else
        dead = true
      end
    else
      if not moved and (not mine or head == me) then break end
      if hears(s, client) then
        tell(s, client, lease, 'first', left(s, kind))
        break
      end
      redis.call('ZREM', s.queue, head)
      dead = true
    end
    moved, head = true, behind
    if dead and behind then
      head, behind = sweep(s, me)
    elseif behind then
      behind = redis.call('ZRANGE', s.queue, 1, 1)[1]
    end
  end
  if mine and not token and not head and fits(s, mine) then token = give(s, px, parse(me)) end
  if token and waited then redis.call('DEL', s.queue .. CLAIM) end
  return token
end

-- go admits waiters after a lease or a wait has ended. If nothing can be granted now, it
-- only tells the new head of the queue that it is the head.
local function go(lock, floor, queue, epoch, claim, channel, at, moved)
  local known = redis.call('MGET', floor, epoch, lock)
  local s = state(lock, floor, queue, at, highest(known[1]), claim, channel)
  if known[3] then
    s.n, s.kind = 1, 'exclusive'
  elseif quarantine(epoch, known[2], at) ~= 0 then
    s.n, s.kind = 1, 'closed'
  else
    s.n, s.kind = sharers(lock, at)
  end
  admit(s, moved)
end
