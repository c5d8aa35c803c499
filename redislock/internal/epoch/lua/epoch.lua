-- SPDX-License-Identifier: Apache-2.0
-- epoch makes the record of this run of the server, joins its epoch, or only reads it.
-- Gets: boot, publish, layout, now, digits of guard.lua.
-- KEYS: epoch; in a cluster another one that never exists, so that this does not run
-- while the hash slot moves
-- ARGV: look, join, bless (to begin with an open epoch in any case), or set (which changes MaxTTL);
-- MaxTTL in ms as the caller takes it; what it has learnt from the store, or is to be
-- set, or 0, and the change that this is from; if the caller was with another run before, how
-- many ms ago it heard of that last, else ''; who has set the second MaxTTL;
-- in how many ms the last lease has ended
-- that is longer than MaxTTL, as the caller has learnt it; who calls; the channel on which all are told
-- of a record where there was none, or ''; the caller's id; 1 if the caller has had a lease here, else ''
-- Returns {for how many more ms nothing may be granted; the MaxTTL, 0 if there is none to be seen yet; whether that is an
-- epoch that begins: 0 no, 1 yes, or that was others', 2 yes, as there was no record; the change that MaxTTL is from; who has set it;
-- in how many ms the last lease that is longer has ended; the layout
-- of the record if that is of clients with other keys, else ''}. In that case nothing is changed, and the rest says nothing.

local SILENCE = 2000 -- for how many ms a server may be silent although it is there
local SLACK = 1000000 -- in microseconds: clients report ENDS late by a round trip, and that must not add up

-- Replicas have the record as it is written here. If one gives it back to a server that was the master
-- before, that looks at once whether its data is still the one of the record.
local UNSEEN = '0000000000000000'

local epoch = KEYS[1]
local mode, own, known, change, away, who = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local rest, me, channel, id, had = tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10], ARGV[11] == '1'

local clustered = publish == 'SPUBLISH'

-- In the same step as the read of the record: otherwise a loss of data between the two
-- would go unnoticed.
local info = '\r\n' .. redis.call('INFO', clustered and 'replication' or 'all')
local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') end

-- promoted says that it has been a replica. The server forgets that when it has had no
-- replica for repl-backlog-ttl, which must be as long as the longest TTL.
local promoted = string.match(field('master_replid2') or '', '[^0]')

-- age returns for how many seconds a server has certainly forgotten nothing: since its
-- start, unless data was erased, or unless it was a replica, which may lack what its
-- master granted up to the end. Both ends of the uptime are rounded down, so it can be
-- 1 s too long.
local function age(commands)
  -- A node of a cluster does not say since when it has had the hash slot, and whether
  -- the slot came with its data.
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
local run, from, till, longest, set, blessed, lineage, ends, by
if theirs then
  run, from, till, longest, set, blessed, lineage, ends, by =
    string.match(record, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*) %d+$', #theirs + 2)
end
local fresh = not run
from, till, blessed, ends = tonumber(from), tonumber(till), tonumber(blessed) or 0, tonumber(ends) or 0
longest, set, by = tonumber(longest) or own, tonumber(set) or 0, by or me

-- Clients with other keys do not exclude this one, so only one kind may be granted anything: the one that has the
-- record. It is the other way round if the caller had leases before the record was lost, and nothing has been
-- granted since.
local others = run and theirs ~= layout
if others and not (mode == 'join' and had and run == boot and blessed == 0 and till > at) then
  return {0, 0, 0, '0', '', 0, theirs}
end
if fresh and mode == 'look' then longest, by = 0, '{}' end

-- more is set if forgotten leases may be longer than was known here.
local more = false
if mode == 'set' or mode == 'bless' and known > 0 then
  change = math.max(at, set + 1)
end
if known > 0 and mode ~= 'look' and (change > set or change == set and (known > longest or fresh and known == longest)) then
  -- Leases with the longer TTL go on for that long, and are renewed no more.
  if not fresh and known < longest then ends = math.max(ends, at + longest * 1000) end
  more = mode == 'join' and known > longest
  longest, set, by = known, change, who
end
if mode == 'join' and not fresh and set == 0 and till > at and own > longest then
  -- The data was lost, and the first client that came knew a shorter MaxTTL.
  longest, by, more = own, me, true
end

-- The record may have been lost, and with it the fact that there are longer leases.
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
  -- A record of another run came from a disk, which may lack the last second, or from a
  -- master, which may have granted more since. The end of that run is not known, but if
  -- this server was never a replica it was before the start of this one. A master that
  -- was a replica in between has the data of its master. The id of its data changes
  -- also when the first replica comes, and when the last has long gone. And nothing
  -- ends in time after the clock was set back.
  local kept = not fresh and not away and run ~= boot and from <= at
  from, blessed = at - (kept and age('replicaof slaveof psync') or 0) * 1000000, 0
elseif away and blessed < at - away * 1000 and from < at - (away - SILENCE) * 1000 then
  -- Other clients may have got leases elsewhere up to now. Since the caller was there,
  -- no client has reported that, or declared that there are none.
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
  -- Connected clients do not notice a FLUSHALL, and may have leases that this caller
  -- does not know.
  if fresh and channel ~= '' then redis.call('PUBLISH', channel, id .. ' ' .. boot) end
  redis.call('SET', epoch, table.concat({layout, boot, digits(from), digits(till), digits(longest), digits(set), digits(blessed), data, digits(ends), by, UNSEEN}, ' '))
end
return {math.max(0, math.ceil((till - at) / 1000)), longest, begun and (fresh and 2 or 1) or others and 1 or 0, digits(set), by, math.max(0, math.ceil((ends - at) / 1000)), ''}
