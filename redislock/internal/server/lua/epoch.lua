-- SPDX-License-Identifier: Apache-2.0
-- epoch makes the record of this run of the server, or joins it.
-- KEYS: epoch
-- ARGV: longest ttl in ms; 1 to begin with an open epoch in any case, or 0; if the caller
-- was with another run before, how many ms ago it heard of that last, else ''
-- Returns {for how many more ms nothing may be granted, longest ttl in ms}.

local epoch = KEYS[1]
local ttl, bless, away = tonumber(ARGV[1]), ARGV[2] == '1', tonumber(ARGV[3])

-- In the same step as the look at the record: data that is erased between the
-- two would go unnoticed.
local info = '\r\n' .. redis.call('INFO', 'all')
local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') end

-- promoted is whether it has been a replica. The server forgets that when it has
-- had no replica for repl-backlog-ttl, which must be as long as the longest TTL.
local promoted = string.match(field('master_replid2') or '', '[^0]')

-- age returns for how many seconds a server without a record has certainly
-- forgotten nothing: since it began, unless data was erased, or it was a replica,
-- which may lack what its master granted up to the end. Both ends of the uptime
-- are rounded down: it can be 1 s too long.
local function age()
  if promoted or field('evicted_keys') ~= '0' then return 0 end
  for _, command in ipairs({'flushall', 'flushdb', 'swapdb', 'config|resetstat'}) do
    if field('cmdstat_' .. command) then return 0 end
  end
  return math.max(0, (tonumber(field('uptime_in_seconds')) or 0) - 1)
end

local at, data = now(), field('master_replid')
if field('role') ~= 'master' or not data then return redis.error_reply('READONLY') end
local record = redis.call('GET', epoch)
local run, from, longest, blessed, known = string.match(record or '', '^(%S+) (%S+) (%S+) (%S+) (%S+) %S+$')
longest = math.max(ttl, tonumber(longest) or 0)
from, blessed = tonumber(from), tonumber(blessed)
if bless then
  from, longest, blessed = 0, ttl, at
elseif not record and not away then
  from, blessed = at - age() * 1000000, 0
elseif run ~= boot or known ~= data and promoted or from > at then
  -- A record of another run came from a disk, which may lack the last second, or
  -- from a master, which may have granted more since. When it ended nobody knows.
  -- A master that was a replica in between has the data of its master. The id of
  -- its data changes also when the first replica comes, and when the last has
  -- long gone. And nothing ends in time after the clock was set back.
  from, blessed = at, 0
elseif away and math.max(from, blessed) < at - away * 1000 then
  -- Others may have got leases elsewhere up to now, and nobody has said so since
  -- the caller was there.
  from, blessed = at, 0
end
redis.call('SET', epoch, table.concat({boot, digits(from), digits(longest), digits(blessed), data, digits(at)}, ' '))
return {math.max(0, math.ceil((from - at) / 1000 + longest)), longest}
