-- SPDX-License-Identifier: Apache-2.0
-- downgrade replaces an exclusive lease by a shared one, in one step, and grants the lock to
-- the readers at the head of the queue too.
-- Gets: now, quarantine of guard.lua; lease.lua and queue.lua.
-- KEYS: as acquire, for one lock
-- ARGV: client, kind, record, ttl ms, claim ms, channel, the shared lease, the exclusive lease,
-- the beginning of the keys beside the lock
-- Returns {1, token, server time}; {0, record of its break, or ''} if the exclusive
-- lease does not hold the lock; {-2, remaining quarantine in ms}; or {-1}, {-3} or {-5, ttl}, as
-- acquire does.

local epoch, floor, ended, lock, queue = unpack(KEYS)
local client, kind, record, ttl, claim, channel, lease, old, beside = unpack(ARGV)

local known, at = redis.call('MGET', epoch, floor, ended, lock), now()
local shut = quarantine(epoch, known[1], at, ttl)
if shut < 0 then return {shut, ttl} end
if known[3] then return {-3} end
if not owned(known[4], old) then return {0, broken(beside, old)} end
if shut > 0 then return {-2, math.ceil(shut / 1000)} end
local s = state(lock, floor, queue, at, highest(known[2]), claim, channel)
-- DEL comes first: it needs no memory, and Redis checks maxmemory only before the first write of
-- a script.
redis.call('DEL', lock)
local token = give(s, ttl, lease, client, kind, record)
if redis.call('EXISTS', queue) == 1 then admit(s, false) end
return {1, token, at}
