-- SPDX-License-Identifier: Apache-2.0
-- nodes reads the record of the set of nodes, and replaces it if it is still the one that the caller expects.
-- KEYS: the epoch
-- ARGV: the record that the caller expects, or '' for none; the new record, or '' to read only; how long the new record lasts in ms, or 0 for ever
-- Returns {1, the record after that, or ''}

local key, was, new, ms = KEYS[1] .. NODES, ARGV[1], ARGV[2], ARGV[3]
local record = redis.call('GET', key) or ''
if new ~= '' and record == was then
  if ms == '0' then redis.call('SET', key, new) else redis.call('SET', key, new, 'PX', ms) end
  record = new
end
return {1, record}
