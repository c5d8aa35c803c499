-- SPDX-License-Identifier: Apache-2.0
-- all asks for several locks, and gets all of them or none. It grants nothing to
-- waiters, and does not overtake them. Repeating it is harmless.
-- Gets: now, digits, closed of guard.lua; lease.lua and queue.lua.
-- KEYS: lock, floor, floor of package redlock, queue, ended, for each; epoch
-- ARGV: client; lease, kind, record, ttl ms, for each
-- Returns {1, the tokens, server time}; {0, value or '', pttl ms, the leases that hold
-- it together, with scores, or {}, which lock it is, from 1} if one is held or has
-- waiters; {-1} if the record of the epoch is missing; {-5, ttl} if that is longer than
-- MaxTTL; {-2, closed ms}; {-3} if a lease has ended already; {-4, n, which} if one has
-- n slots, and another number was asked for.

local client, n = ARGV[1], (#ARGV - 1) / 4
local epoch = KEYS[5 * n + 1]
local at = now()
local record, longest = redis.call('GET', epoch), 0
for i = 1, n do longest = math.max(longest, ARGV[4 * i + 1]) end
local shut = closed(epoch, record, at, longest)
if shut < 0 then return {shut, longest} end
if shut > 0 then return {-2, math.ceil(shut / 1000)} end

local wanted = {}
for i = 1, n do
  local lock, floor, redlock, queue, ended = unpack(KEYS, 5 * i - 4, 5 * i)
  local lease, kind, record, ttl = unpack(ARGV, 4 * i - 2, 4 * i + 1)
  local known = redis.call('MGET', lock, floor, ended, redlock)
  local value = known[1]
  if known[3] then return {-3} end
  local s = state(lock, floor, queue, at, math.max(highest(known[2]), highest(known[4])))
  s.me, s.ttl = join(lease, client, kind, record), ttl
  if owned(value, lease) then -- by the same call, which was not answered
    lengthen(lock, ttl)
    s.token = string.match(value, '^%S+ %S+ (%S+)')
  elseif value then
    s.n, s.kind = 1, 'exclusive'
  elseif redis.call('EXISTS', lock) == 1 then
    s.n, s.kind = sharers(lock, at)
    if s.n > 0 and stay(lock, s.me, ttl, at) then
      s.token = digits(-redis.call('ZSCORE', lock, '@' .. s.me))
    end
    local slots = tonumber(s.kind)
    if slots and tonumber(kind) and slots ~= tonumber(kind) then return {-4, slots, i} end
  end
  if not s.token and (not fits(s, kind) or redis.call('EXISTS', queue) == 1) then
    return {0, value or '', redis.call('PTTL', lock), s.n > 0 and not value and redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES') or {}, i}
  end
  wanted[i] = s
end

local reply, last = {1}, {} -- two of the locks may have the same floor
for i, s in ipairs(wanted) do
  s.last = math.max(s.last, last[s.floor] or 0)
  reply[i + 1] = s.token or give(s, s.ttl, parse(s.me))
  last[s.floor] = s.last
end
reply[#reply + 1] = at
return reply
