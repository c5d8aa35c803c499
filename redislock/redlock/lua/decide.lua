-- SPDX-License-Identifier: Apache-2.0
-- decide takes part in the decision which sets of nodes follow those of a generation: the node is an acceptor of
-- Paxos, for one generation at a time. It forgets what was before once it has recorded another.
-- Gets: now, closed of guard.lua.
-- KEYS: epoch, what the node has said
-- ARGV: ask or accept; the sets that are recorded now, without SELF; number and id of the ballot; to accept: the sets that
-- are to follow, and the change that they are of
-- Returns {1 or 0, the sets that the node has recorded, the number of the ballot that it has heeded last, the number of the one
-- that it has accepted or 0, the sets that were to follow by that, the change that they are of, for how many ms the node is
-- closed}, or {-1}: no epoch

local epoch, said = unpack(KEYS)
local mode, known, number, id, sets, change = unpack(ARGV)

local record, state = unpack(redis.call('MGET', epoch, said), 1, 2)
-- A node that may have forgotten what it has accepted is closed: it must not accept something else.
local wait = closed(epoch, record, now(), nil)
if wait < 0 then return {-1} end
local has = string.match(record or '', '^%S+ %S+ %S+ %S+ %S+ %S+ %S+ [^ ;]+;(%S+) ', #layout + #boot + 3) or ''

-- What the node has said is of the sets that it had recorded then. If it has others, that is decided, or a record was deleted.
local of, heeded, by, accepted, follow, whose = string.match(state or '', '^(%S+) (%d+) (%S+) (%d+) (%S+) (.*)$')
if of ~= has then
  heeded, by, accepted, follow, whose = '0', '-', '0', '-', ''
end
local mine = heeded == number and by == id
local yes = wait == 0 and has == known and
  (mine or mode == 'ask' and tonumber(number) > tonumber(heeded))
if yes then
  heeded, by = number, id
  if mode == 'accept' then accepted, follow, whose = number, sets, change end
  redis.call('SET', said, table.concat({has, heeded, by, accepted, follow, whose}, ' '))
end
return {yes and 1 or 0, has, heeded, accepted, follow, whose, math.ceil(wait / 1000)}
