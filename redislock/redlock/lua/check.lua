-- SPDX-License-Identifier: Apache-2.0
-- check tries every command of the scripts.
-- ARGV: an unused key for a string, an unused key for a sorted set, a channel. Package epoch
-- gives these to the check of package redislock, too.
-- Returns the names of the commands that the user may not run. A ! before a name says that the server does not have the command.

local s, z, channel = unpack(ARGV)
local missing = {}
local calls = {
  {'TIME'}, {'SET', s, 'x', 'PX', 1000}, {'GET', s}, {'EXISTS', s}, {'PTTL', s}, {'PEXPIRE', s, 1000},
  {'ZADD', z, 1, 'x'}, {'ZCARD', z}, {'ZRANK', z, 'x'}, {'ZRANGE', z, 0, -1}, {'ZREMRANGEBYSCORE', z, 2, 2}, {'ZREM', z, 'x'},
  {'MGET', s}, {'DEL', s, z}, {'PUBLISH', channel, 'check'}, {'PUBSUB', 'NUMSUB', channel},
}
if boot ~= '' then
  for _, call in ipairs({{'INFO'}, {'SETRANGE', s, 0, '1'}, {'OBJECT', 'ENCODING', s}}) do
    table.insert(calls, 3, call) -- after SET, which lets the key expire
  end
end
for _, call in ipairs(calls) do
  local r = redis.pcall(unpack(call))
  if type(r) == 'table' and r.err and string.find(r.err, 'nknown Redis command', 1, true) then
    missing[#missing + 1] = '!' .. string.lower(call[1])
  elseif type(r) == 'table' and r.err and
      (string.find(r.err, 'executing the script can', 1, true) or string.find(r.err, 'ACL failure', 1, true)) then
    missing[#missing + 1] = string.lower((call[1] == 'PUBSUB' or call[1] == 'OBJECT') and call[1] .. '|' .. call[2] or call[1])
  end
end
return missing
