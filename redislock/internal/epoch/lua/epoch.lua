-- SPDX-License-Identifier: Apache-2.0
-- epoch makes the record of this run of the server, joins its epoch, or only reads it.
-- Gets: boot, publish, layout, now, digits of guard.lua.
-- KEYS: epoch; in a cluster also a key that never exists, so that the script does not run
-- while the hash slot moves
-- ARGV:
--  1 the mode: look (changes nothing), join, bless (ends the quarantine), or set (changes MaxTTL)
--  2 the caller's own MaxTTL in ms
--  3 the MaxTTL that the caller has learnt from the store, or wants to set, in ms; or 0
--  4 the change from which the MaxTTL in 3 comes: 0 or 1 at first, later the server time of the change
--  5 how many ms ago the caller last heard from another run that it used before, or ''
--  6 who has set the MaxTTL in 3
--  7 in how many ms the last lease longer than MaxTTL ends, as far as the caller knows
--  8 who calls
--  9 the channel on which to notify all clients of a new record where there was none, or ''
-- 10 the id of the caller
-- 11 1 if the caller has had a lease here, else ''
-- Returns
--  1 the remaining quarantine in ms
--  2 MaxTTL in ms; 0 if there is no record of it yet
--  3 2 if a new epoch begins and there was no record; 1 if a new epoch begins, or the record was of
--    clients with another Pattern; else 0
--  4 the change from which MaxTTL comes
--  5 who has set it
--  6 in how many ms the last lease longer than MaxTTL ends
--  7 '', or the layout of the record if it is of clients with another Pattern. Then the script has
--    changed nothing, and 1 to 6 mean nothing.

local SILENCE = 2000 -- for how many ms a server in use may be silent
local SLACK = 1000000 -- in microseconds: clients report ENDS late by a round trip, and these delays must not add up

-- The script writes UNSEEN as the time of the last look, and replicas get it. So if a former master
-- gets the record back from a replica, quarantine looks at once whether the record is for its data.
local UNSEEN = '0000000000000000'

local epoch = KEYS[1]
local mode, own, known, change, away, who = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local rest, me, channel, id, had = tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10], ARGV[11] == '1'

local clustered = publish == 'SPUBLISH'

-- INFO and the read of the record are in one script: otherwise a loss of data between
-- the two would go unnoticed.
local info = '\r\n' .. redis.call('INFO', clustered and 'replication' or 'all')
local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') end

-- promoted says that the server has been a replica. The server forgets that after it has
-- had no replica for repl-backlog-ttl. So repl-backlog-ttl must be at least MaxTTL.
local promoted = string.match(field('master_replid2') or '', '[^0]')

-- age returns for how many seconds the server has certainly forgotten nothing. That is
-- the time since its start; but 0 if data may have been erased, or if the server was a
-- replica, which may lack the last grants of its master. commands names further commands
-- after which age is 0. The uptime is a difference of two times that are rounded down, so
-- it can be 1 s too long.
local function age(commands)
  -- A node of a cluster does not say since when it has had the hash slot, or whether it got
  -- the slot with its data.
  if clustered then return 0 end
  if promoted or field('evicted_keys') ~= '0' then return 0 end
  for command in string.gmatch('flushall flushdb swapdb config|resetstat ' .. commands, '%S+') do
    if field('cmdstat_' .. command) then return 0 end
  end
  return math.max(0, (tonumber(field('uptime_in_seconds')) or 0) - 1)
end

local at, data = now(), field('master_replid')
if field('role') ~= 'master' or not data then return redis.error_reply('READONLY') end
local record = redis.call('GET', epoch) or ''
local theirs = string.match(record, '^1 %S+')
if record ~= '' and not theirs then return redis.error_reply('LAYOUT ' .. string.match(record .. ' ', '^(.-) ')) end
local run, from, till, longest, set, blessed, lineage, ends, by =
  string.match(record, '^1 %S+ (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*) %d+$')
local fresh = not run
from, till, blessed, ends = tonumber(from), tonumber(till), tonumber(blessed) or 0, tonumber(ends) or 0
longest, set, by = tonumber(longest) or own, tonumber(set) or 0, by or me

-- Clients with another Pattern do not exclude this one. So the server grants leases only to clients with the Pattern of
-- the record. The caller may replace a record of others only if the caller had leases before the record was lost, and
-- nothing has been granted since.
local others = run and theirs ~= layout
if others and not (mode == 'join' and had and run == boot and blessed == 0 and till > at) then
  return {0, 0, 0, '0', '', 0, theirs}
end
if fresh and mode == 'look' then longest, by = 0, '{}' end

-- more is true if the server may have forgotten leases that are longer than the record says.
local more = false
if mode == 'set' or mode == 'bless' and known > 0 then
  change = math.max(at, set + 1)
end
if known > 0 and mode ~= 'look' and (change > set or change == set and (known > longest or fresh and known == longest)) then
  -- MaxTTL becomes shorter. Leases with the longer TTL last for that TTL at most: they can no
  -- longer be renewed with it.
  if not fresh and known < longest then ends = math.max(ends, at + longest * 1000) end
  more = mode == 'join' and known > longest
  longest, set, by = known, change, who
end
if mode == 'join' and not fresh and set == 0 and till > at and own > longest then
  -- The data was lost, and the first client after that knew a shorter MaxTTL.
  longest, by, more = own, me, true
end

-- If the record was lost, the server does not know of leases longer than MaxTTL. The caller does.
local told = at + rest * 1000
if rest > 0 and mode ~= 'bless' and told > ends + SLACK then
  ends = told
  if not fresh and till > at and blessed == 0 then till = math.max(till, ends) end
end

local begun = true
if mode == 'bless' then
  begun, from, till, ends, blessed = false, 0, 0, 0, at
elseif fresh and not away then
  from, blessed = at - age('') * 1000000, 0
elseif fresh or run ~= boot or lineage ~= data and promoted or from > at then
  -- A record of another run comes from a disk, which may lack the last second, or from a
  -- master, which may have granted more since. The end of that run is not known. But if
  -- this server was never a replica, that run ended before this one started. A master that
  -- was a replica in between has the data of its master: then the id of its data (lineage)
  -- differs. The id also changes when the first replica connects, and long after the last one
  -- has gone; so it counts only if the server was promoted. And if the clock was set back,
  -- leases end later than the record says.
  local kept = not fresh and not away and run ~= boot and from <= at
  from, blessed = at - (kept and age('replicaof slaveof psync') or 0) * 1000000, 0
elseif away and blessed < at - away * 1000 and from < at - (away - SILENCE) * 1000 then
  -- The caller was at another server, away ms ago, and clients may have got leases there up
  -- to now. Since then no client has reported that here, and nobody has blessed this server.
  from, blessed = at, 0
else
  begun = false
end
if begun then
  till = math.max(from + (longest == 0 and own or longest) * 1000, ends)
  if not fresh then set = math.max(set, 1) end
elseif more then
  till = math.max(till, from + longest * 1000)
end
if mode ~= 'look' then
  -- Connected clients do not notice a FLUSHALL. They may know longer leases than the caller.
  if fresh and channel ~= '' then redis.call('PUBLISH', channel, id .. ' ' .. boot) end
  redis.call('SET', epoch, table.concat({layout, boot, digits(from), digits(till), digits(longest), digits(set), digits(blessed), data, digits(ends), by, UNSEEN}, ' '))
end
return {math.max(0, math.ceil((till - at) / 1000)), longest, begun and (fresh and 2 or 1) or others and 1 or 0, digits(set), by, math.max(0, math.ceil((ends - at) / 1000)), ''}
