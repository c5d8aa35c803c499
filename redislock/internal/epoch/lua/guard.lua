-- SPDX-License-Identifier: Apache-2.0
-- Every script begins with a line that sets boot, publish, limit and layout, and with this file.
-- Gets: boot, the run_id of the server, or '' if it is not guarded; publish, the
-- command that sends messages to clients; limit, MaxTTL in ms; layout, what the records of this client begin with: 1 and
-- the pattern of its keys, or -.
-- Gives: now, digits, lineage, closed, beyond.

local LOOK = 50000 -- for how long a check of the server's role is valid while the seal is intact, in microseconds

-- now returns the server's time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- digits writes a whole number. That takes as long as some commands, so it keeps the
-- text: many locks in one call mostly have the same number.
local written = {}
local function digits(n)
  local text = written[n]
  if not text then
    text = string.format('%.0f', n)
    written[n] = text
  end
  return text
end

-- lineage returns the id of the data's history, or nil for a replica. A replica has
-- the id of its master, and gets a new one when it becomes the master. So the id changes
-- if a master was a replica in between.
local function lineage()
  local info = redis.call('INFO', 'replication')
  return string.find(info, 'role:master', 1, true) and string.match(info, '\nmaster_replid:(%x+)')
end

-- sealed reports whether this is the data that the server had at the last look, and no copy. SETRANGE makes a
-- string with the encoding raw. A server that loads a copy of the data makes a digit one with the encoding int. (A letter would be
-- embstr, but raw in newer servers beside a long key.) A copy has the record, with the time of the last look; only the
-- seal tells that the server got its data back from a replica that lacks the last grants.
local SEAL = ':seal'
local function sealed(epoch) return redis.pcall('OBJECT', 'ENCODING', epoch .. SEAL) == 'raw' end

-- keep writes the record, and the seal, only here: a replica does not need them, nor does the log of
-- writes. Without memory for them the role is checked again next time: it must still be
-- possible to give locks back.
local function keep(epoch, record)
  redis.set_repl(redis.REPL_NONE)
  redis.pcall('SET', epoch, record)
  redis.pcall('SET', epoch .. SEAL, '1') -- whatever was there
  redis.pcall('SETRANGE', epoch .. SEAL, 0, '1')
  redis.set_repl(redis.REPL_ALL)
end

-- closed returns for how many more microseconds nothing may be granted, or -1
-- if record, that of the epoch, is not of this run of the server, not of its data, of clients with other keys, has
-- another MaxTTL than this script was made for, or must be made anew for another reason;
-- or -5 if ttl is longer than that. ttl is nil for the claim of a waiter: a waiter asks for its TTL itself, so
-- that MaxTTL may have changed since this script was made.
local function closed(epoch, record, at, ttl)
  if boot == '' then return 0 end
  -- It does not parse the whole record at once: each grant passes here.
  local head = layout .. ' ' .. boot .. ' '
  if string.sub(record or '', 1, #head) ~= head then return -1 end
  local from, till, longest = string.match(record, '^(%S+) (%S+) (%S+) ', #head + 1)
  -- A record from the future was made before the clock was set back.
  if not from or tonumber(from) > at or ttl and longest ~= limit then return -1 end
  if ttl and tonumber(ttl) > tonumber(limit) then return -5 end
  local seen = tonumber(string.sub(record, -16)) -- nil if the clock says 1970
  if not seen or at < seen or at > seen + LOOK or not sealed(epoch) then
    local data = string.match(record, '^%S+ %S+ %S+ %S+ %S+ (%S+) ', #head + 1)
    if lineage() ~= (data or '') then return -1 end
    keep(epoch, string.sub(record, 1, -17) .. digits(at))
  end
  return math.max(0, till - at)
end

-- beyond returns why the record, of any run, does not allow a renewal: -5 if the TTL is too long, or -1 if it is
-- of clients with other keys or of another version, which are granted this name without knowing of this lease.
local function beyond(record, ttl)
  if boot == '' or type(record) ~= 'string' then return nil end
  if string.sub(record, 1, #layout + 1) ~= layout .. ' ' then return -1 end
  local longest = string.match(record, '^%S+ %S+ %S+ (%S+) ', #layout + 2)
  return longest and tonumber(ttl) > tonumber(longest) and -5
end
