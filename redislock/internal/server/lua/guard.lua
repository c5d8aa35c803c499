-- SPDX-License-Identifier: Apache-2.0
-- Every script begins with a line that sets boot, and with this file.

local LOOK = 10000 -- for how long a look at the server's role is good, in microseconds

-- now returns the server's time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- digits writes a whole number. That takes as long as some commands, and what many
-- locks are given at once has mostly the same.
local written = {}
local function digits(n)
  local text = written[n]
  if not text then
    text = string.format('%.0f', n)
    written[n] = text
  end
  return text
end

-- lineage returns the id of the data's history, or nil for a replica. A replica
-- has that of its master, and has a new one when it becomes the master: so it
-- changes if a master was a replica in between.
local function lineage()
  local info = redis.call('INFO', 'replication')
  return string.find(info, 'role:master', 1, true) and string.match(info, '\nmaster_replid:(%x+)')
end

-- keep writes the record here only: a replica's would be of no use, and the log
-- of writes need not know when somebody looked. Without memory for it somebody
-- will look again: locks must be given back all the same.
local function keep(epoch, ...)
  redis.set_repl(redis.REPL_NONE)
  redis.pcall('SET', epoch, table.concat({...}, ' '))
  redis.set_repl(redis.REPL_ALL)
end

-- closed returns for how many more microseconds nothing may be granted, or -1
-- if record, that of the epoch, is not of this run of the server, not of its data,
-- or must be made anew for another reason.
local function closed(epoch, record, at)
  if boot == '' then return 0 end
  -- Not all of the record at once: each grant passes here.
  if string.sub(record or '', 1, #boot + 1) ~= boot .. ' ' then return -1 end
  local from, ttl = string.match(record, '^(%S+) (%S+) ', #boot + 2)
  -- A record from the future is one from before the clock was set back.
  if not from or tonumber(from) > at then return -1 end
  local seen = tonumber(string.sub(record, -16)) -- nil if the clock says 1970
  if not seen or at < seen or at > seen + LOOK then
    local blessed, data = string.match(record, '^%S+ %S+ %S+ (%S+) (%S+) %S+$')
    if lineage() ~= (data or '') then return -1 end
    keep(epoch, boot, from, ttl, blessed, data, digits(at))
  end
  return math.max(0, from + ttl * 1000 - at)
end
