-- SPDX-License-Identifier: Apache-2.0
-- Every script begins with a line that sets boot, and with this file.

-- now returns the server's time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function digits(n) return string.format('%.0f', n) end

-- closed returns for how many more microseconds nothing may be granted, or -1
-- if record, that of the epoch, is not of this run of the server.
local function closed(record, at)
  if boot == '' then return 0 end
  local run, from, ttl = string.match(record or '', '^(%S+) (%S+) (%S+)$')
  if run ~= boot then return -1 end
  return math.max(0, from + ttl * 1000 - at)
end
