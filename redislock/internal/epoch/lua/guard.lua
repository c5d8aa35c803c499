-- SPDX-License-Identifier: Apache-2.0
-- Every script begins with a line that sets boot, publish, limit and layout, and with this file.
-- Gets: boot, the run_id of the server, or '' if the server is not guarded; publish, the
-- command that sends messages to clients; limit, MaxTTL in ms; layout, the beginning of the records of this
-- client: 1, a space, and the Pattern, or - without one.
-- Gives: now, digits, lineage, quarantine, beyond.

local LOOK = 50000 -- for how many microseconds a look at the server's role is valid while the seal is intact

-- now returns the server's time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- digits returns the decimal digits of a whole number. Formatting takes as long as some
-- commands, so digits remembers the text: the locks of one call mostly need the same numbers.
local written = {}
local function digits(n)
  local text = written[n]
  if not text then
    text = string.format('%.0f', n)
    written[n] = text
  end
  return text
end

-- lineage returns the id of the history of the data (master_replid), or nil for a replica. A
-- replica has the id of its master, and gets a new id when it becomes the master. So the id
-- of a master changes if it was a replica in between.
local function lineage()
  local info = redis.call('INFO', 'replication')
  return string.find(info, 'role:master', 1, true) and string.match(info, '\nmaster_replid:(%x+)')
end

-- sealed reports whether the server still has the data of the last look, and not a copy that it has loaded. The seal is a
-- digit that SETRANGE has written, so its encoding is raw. When a server loads a copy of the data, the encoding of a digit
-- becomes int. (The encoding of a letter would become embstr, or, in newer servers beside a long key, raw.) A copy also has
-- the record with the time of the last look. So only the seal shows that the server got its data back from a replica, which
-- may lack the last grants.
local SEAL = ':seal'
local function sealed(epoch) return redis.pcall('OBJECT', 'ENCODING', epoch .. SEAL) == 'raw' end

-- keep writes the record and the seal only at this server: replicas and the append-only file do
-- not need them. It ignores errors: if the server lacks memory, clients must still be able to
-- release locks. Then the next script looks at the role again.
local function keep(epoch, record)
  redis.set_repl(redis.REPL_NONE)
  redis.pcall('SET', epoch, record)
  redis.pcall('SET', epoch .. SEAL, '1') -- replaces a key of any type
  redis.pcall('SETRANGE', epoch .. SEAL, 0, '1')
  redis.set_repl(redis.REPL_ALL)
end

-- quarantine returns the remaining quarantine in microseconds; -5 if ttl is longer than MaxTTL; or -1 if the record of the
-- epoch must be made anew. That is so if the record is missing, is of another run of the server, of other data or of
-- clients with another Pattern, if its MaxTTL is not the limit of this script, or if the clock was set back.
-- ttl is nil when a script hands a lock to a waiter. Then quarantine does not check MaxTTL: the waiter checks its TTL when
-- it renews, and MaxTTL may have changed since this script was loaded.
local function quarantine(epoch, record, at, ttl)
  if boot == '' then return 0 end
  -- Each grant runs this, so do not parse the whole record at first.
  local head = layout .. ' ' .. boot .. ' '
  if string.sub(record or '', 1, #head) ~= head then return -1 end
  local from, till, longest = string.match(record, '^(%S+) (%S+) (%S+) ', #head + 1)
  -- If the record is from the future, the clock was set back since.
  if not from or tonumber(from) > at or ttl and longest ~= limit then return -1 end
  if ttl and tonumber(ttl) > tonumber(limit) then return -5 end
  local seen = tonumber(string.sub(record, -16)) -- 16 digits; nil if the clock says 1970 and there are fewer
  if not seen or at < seen or at > seen + LOOK or not sealed(epoch) then
    local data = string.match(record, '^%S+ %S+ %S+ %S+ %S+ (%S+) ', #head + 1)
    if lineage() ~= (data or '') then return -1 end
    keep(epoch, string.sub(record, 1, -17) .. digits(at))
  end
  return math.max(0, till - at)
end

-- beyond returns why the record of the epoch, of any run, forbids a renewal: -5 if the TTL is too long, or -1 if the
-- record is of clients with another Pattern or of another version. Such clients do not see this lease, and can get
-- the name.
local function beyond(record, ttl)
  if boot == '' or type(record) ~= 'string' then return nil end
  if string.sub(record, 1, #layout + 1) ~= layout .. ' ' then return -1 end
  local longest = string.match(record, '^%S+ %S+ %S+ (%S+) ', #layout + 2)
  return longest and tonumber(ttl) > tonumber(longest) and -5
end
