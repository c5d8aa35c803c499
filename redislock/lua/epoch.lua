-- SPDX-License-Identifier: Apache-2.0
-- epoch makes the record of this run of the server, or joins it.
-- KEYS: epoch
-- ARGV: longest ttl in ms; how many microseconds ago the last lease that the server may
-- have forgotten was granted at the latest: if there is no record, if there is one of
-- another run; 1 to begin with an open epoch in any case.
-- Returns {for how many more ms nothing may be granted, longest ttl in ms}.

local epoch = KEYS[1]
local ttl, missing, other, bless = unpack(ARGV)

local at = now()
local e = redis.call('HMGET', epoch, 'boot', 'from', 'ttl')
local from = tonumber(e[2])
local longest = math.max(tonumber(ttl), tonumber(e[3]) or 0)
if bless == '1' then
  from, longest = 0, tonumber(ttl)
elseif e[1] ~= boot then
  from = at - (e[1] and other or missing)
end
redis.call('HSET', epoch, 'boot', boot, 'from', digits(from), 'ttl', digits(longest))
return {math.max(0, math.ceil((from - at) / 1000 + longest)), longest}
