-- SPDX-License-Identifier: Apache-2.0
-- epoch makes the record of this run of the server, or joins it.
-- KEYS: epoch
-- ARGV: longest ttl in ms; 1 to begin with an open epoch in any case, or 0
-- Returns {for how many more ms nothing may be granted, longest ttl in ms}.

local epoch = KEYS[1]
local ttl, bless = tonumber(ARGV[1]), ARGV[2] == '1'

-- In the same step as the look at the record: data that is erased between the
-- two would go unnoticed.
local info = '\r\n' .. redis.call('INFO', 'all')
local function field(name) return string.match(info, '\n' .. name .. ':([^\r\n]*)') end

-- A run that has been a replica may lack what its master granted up to the end.
-- Any other has forgotten nothing that was granted since it began, unless data
-- was erased. Both ends of the uptime are rounded down: it can be 1 s too long.
local function forgotten(at, missing)
  local age = math.max(0, (tonumber(field('uptime_in_seconds')) or 0) - 1)
  if string.match(field('master_replid2') or '', '[^0]') then age = 0 end
  if missing then
    if field('evicted_keys') ~= '0' then age = 0 end
    for _, command in ipairs({'flushall', 'flushdb', 'swapdb', 'config|resetstat'}) do
      if field('cmdstat_' .. command) then age = 0 end
    end
  end
  return at - age * 1000000
end

local at = now()
local record = redis.call('GET', epoch)
local run, from, longest = string.match(record or '', '^(%S+) (%S+) (%S+)$')
longest = math.max(ttl, tonumber(longest) or 0)
if bless then
  from, longest = 0, ttl
elseif run ~= boot then
  from = forgotten(at, not record)
end
redis.call('SET', epoch, boot .. ' ' .. digits(from) .. ' ' .. digits(longest))
return {math.max(0, math.ceil((from - at) / 1000 + longest)), longest}
