-- SPDX-License-Identifier: Apache-2.0
-- Functions for locks that are not simply free, or held by one exclusive lease.
-- Gets: boot, publish, now, digits, closed of guard.lua; all of lease.lua.
-- Gives: try, wrote, join, parse, sharers, stay, leave, find, broken, highest, state, fits, left, give, pass, admit, go; ENDED, QUEUE, CLAIM.

local QUEUE = 300000 -- how long a queue lives if no waiter looks, in ms
local ENDED = 300000 -- how long a request may be under way to the server, in ms

-- While the key QUEUE:claim exists, the last claim was not taken. It lives for MISSED after the end of the claim.
local CLAIM = ':claim'
local MISSED = 30000
local LATE = 2000 -- how long after that all waiters have looked that can, in ms

-- wrote is true after the first write for a lock. It tells a client whose request has failed whether
-- anything may be recorded.
local wrote

-- try calls f for one lock. An error for one does not affect the others in the call.
local function try(f, ...)
  wrote = false
  local ok, answer = pcall(f, ...)
  if ok then return answer end
  local text = type(answer) == 'table' and answer.err or tostring(answer)
  return {err = text .. (wrote and ' script: something may be written' or ' script: nothing was written')}
end

-- An attempt is 'lease client kind record', in the queue and among the leases that hold
-- a lock together. Its kind is exclusive, shared, or the number of slots.
local function join(lease, client, kind, record) return lease .. ' ' .. client .. ' ' .. kind .. ' ' .. record end

local function parse(attempt)
  local lease, client, kind, record = string.match(attempt, '^(%S+) (%S+) (%S+) (.*)$')
  return lease, client, kind, record
end

-- Leases that hold a lock together are in a sorted set in its place. Each has two
-- members: the attempt, with the time of its end as the score, and the same after an @, with
-- its token as a negative number. So requests about one of them take O(log n), and all
-- are under one key.

-- sharers removes the leases whose time is over, and returns how many others hold the
-- lock together, and their kind.
local function sharers(lock, at)
  local last = redis.call('ZRANGE', lock, -1, -1)[1]
  if not last then return 0 end
  local _, _, kind = parse(last)
  if not kind then redis.call('GET', lock) end -- of another program: WRONGTYPE
  for _, attempt in ipairs(redis.call('ZRANGEBYSCORE', lock, 0, digits(at))) do
    redis.call('ZREM', lock, attempt, '@' .. attempt)
  end
  local n = redis.call('ZCARD', lock) / 2
  if n == 0 then return 0 end
  return n, kind
end

-- stay is lengthen for one of several. It returns nil if its time is over.
local function stay(lock, attempt, ttl, at)
  local ends = tonumber(redis.call('ZSCORE', lock, attempt) or nil)
  if not ends or ends <= at then return nil end
  -- PEXPIRE needs no memory, and after it a server without memory accepts the rest.
  redis.call('PEXPIRE', lock, math.max(ttl, redis.call('PTTL', lock)))
  if at + ttl * 1000 > ends then redis.call('ZADD', lock, digits(at + ttl * 1000), attempt) end
  return math.floor((ends - at) / 1000)
end

-- leave takes one of several out, and reports whether its time was not over yet.
local function leave(lock, attempt, at)
  local ends = tonumber(redis.call('ZSCORE', lock, attempt) or nil)
  if not ends then return false end
  redis.call('ZREM', lock, attempt, '@' .. attempt)
  -- The key lives no longer than the last of them: other libraries wait for its end.
  local last = redis.call('ZRANGE', lock, -1, -1, 'WITHSCORES')[2]
  if last then redis.call('PEXPIRE', lock, math.ceil((last - at) / 1000)) end
  return ends > at
end

-- find returns the attempt of a lease that is one of several. It looks at them all.
local function find(lock, lease)
  for _, attempt in ipairs(redis.call('ZRANGEBYSCORE', lock, 0, '+inf')) do
    if owned(attempt, lease) then return attempt end
  end
end

-- broken returns who has broken the lease that holds the lock no more, and why, or ''.
local function broken(beside, lease)
  local news = redis.pcall('GET', beside .. ':broken')
  return type(news) == 'string' and owned(news, lease) and string.sub(news, #lease + 2) or ''
end

-- highest returns the token of a floor.
local function highest(floor)
  return tonumber(floor or 0) or error({err = 'WRONGTYPE the floor of the tokens is no number'})
end

-- state returns what the functions below need to know of a lock.
local function state(lock, floor, queue, at, last, claim, channel)
  return {lock = lock, floor = floor, queue = queue, at = at, last = last, claim = claim, channel = channel, n = 0}
end

-- fits reports whether a lease of a kind may be held together with the present ones.
local function fits(s, kind)
  return s.n == 0 or kind == s.kind and (kind == 'shared' or s.n < (tonumber(kind) or 1))
end

-- left returns in how many ms a lease of a kind may be granted if none is renewed.
local function left(s, kind)
  if s.n > 0 and kind == s.kind and tonumber(kind) then -- one of them has to go
    local first = redis.call('ZRANGEBYSCORE', s.lock, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    return math.max(0, math.ceil((first - s.at) / 1000))
  end
  return redis.call('PTTL', s.lock)
end

-- give grants the lock for px ms and returns the token, which is greater than the last.
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

-- terms returns what a waiter needs to use the lock for the claim.
local function terms(s, token, waited)
  return table.concat({s.lock, token, digits(s.at), s.claim, boot == '' and '-' or boot, s.spare, waited and 1 or 0}, ' ')
end

-- hears reports whether a client has a subscription at this server. The result of
-- PUBLISH comes too late: a waiter that has got the message must have the lock. And in
-- a cluster a message also reaches clients that listen at a replica, which are not
-- counted.
local HEARERS = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
local function hears(s, client) return redis.call('PUBSUB', HEARERS, s.channel .. client)[2] > 0 end

-- sweep takes waiters whose clients have no subscription out of the head of the queue, up to
-- the caller, me. It looks at a hundred of them in a few commands: with as many for each,
-- thousands that have died would hold up the server for long. It returns the first
-- two that are left.
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

-- pass gives the lock to the caller, me, ahead of the waiters before it if the last claim was not
-- taken. One claim after the other would leave the lock free for as long as there are paused
-- waiters at the head of the queue. A caller that does not wait has to leave it to those that do until LATE.
-- pass returns the token; false if the caller has to leave it to others; or nil if no claim was missed.
-- The waiters before the caller leave the queue and are told to look. Those that can come back to their places; the
-- others cost nothing until then.
local function pass(s, me, px, waits)
  local over = MISSED - redis.call('PTTL', s.queue .. CLAIM)
  local head = over >= 0 and over <= MISSED and redis.call('ZRANGE', s.queue, 0, 0)[1]
  if not head or head == me then return nil end
  local _, _, mine = parse(me)
  local _, _, first = parse(head)
  if not fits(s, mine) or not fits(s, first) then return nil end
  if not waits and over < LATE then return false end
  local before = redis.call('ZRANGE', s.queue, 0, 99)
  for i, attempt in ipairs(before) do
    if attempt == me then break end
    local lease, client = parse(attempt)
    tell(s, client, lease, 'first', -2)
    redis.call('ZREM', s.queue, attempt)
  end
  redis.call('ZREM', s.queue, me)
  redis.call('DEL', s.queue .. CLAIM)
  return give(s, px, parse(me))
end

-- admit goes through the queue from its head. Each waiter that may have the lock now
-- gets it for the claim, and has to ask for more in that time. The first that may not
-- gets a message that it is the first, if it was not (moved) or keeps the caller out,
-- and in how many ms its turn may come. Waiters whose client has no subscription leave
-- the queue. The caller is me: it needs no message and gets the lock for px ms. admit
-- returns its token if its turn has come: it was the first, or there are no waiters.
local function admit(s, moved, me, px)
  local mine, token = me and string.match(me, '^%S+ %S+ (%S+)'), nil
  local head, behind = unpack(s.line or redis.call('ZRANGE', s.queue, 0, 1))
  local waited = head
  while head do
    local lease, client, kind = parse(head)
    local dead = false
    if fits(s, kind) then
      redis.call('ZREM', s.queue, head)
      if head == me then
        token = give(s, px, parse(head))
      elseif hears(s, client) then -- the record comes before the message, which says that it is there
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

-- go admits the waiters that may have the lock after a lease has ended. If nothing may
-- be granted now, it only tells the new head of the queue that it is the head. free
-- says that the lock has no holder any more; line is the first two of the queue, and
-- known the floor and the record of the epoch, if the caller has read them.
local function go(lock, floor, queue, epoch, claim, channel, at, moved, free, line, known)
  known = known or redis.call('MGET', floor, epoch, lock)
  local s = state(lock, floor, queue, at, highest(known[1]), claim, channel)
  s.line = line
  if known[3] then
    s.n, s.kind = 1, 'exclusive'
  elseif closed(epoch, known[2], at) ~= 0 then
    s.n, s.kind = 1, 'closed'
  elseif not free then
    s.n, s.kind = sharers(lock, at)
  end
  admit(s, moved)
end
