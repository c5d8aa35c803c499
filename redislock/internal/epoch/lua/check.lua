-- SPDX-License-Identifier: Apache-2.0
-- check tries every command of the scripts.
-- ARGV: the key of an unused string, the key of an unused sorted set, a channel. The keys
-- are not in KEYS, as they may be at another node of a cluster. Redis checks rights before
-- it checks the slot, so a command on a wrong slot still shows a missing right.
-- Returns the names of the commands that the user may not run, and, each after a !, of those
-- that the server does not have.

local s, z, channel = unpack(ARGV)
local missing = {}
local calls = {
  {'TIME'}, {'SET', s, 'x', 'PX', 1000}, {'GET', s}, {'EXISTS', s}, {'PTTL', s}, {'PEXPIRE', s, 1000},
  {'ZADD', z, 'NX', 1, 'x'}, {'ZRANGE', z, 0, 0}, {'ZRANK', z, 'x'}, {'ZREM', z, 'x'}, {'ZCARD', z},
-- with the commands of Config.Commands
  {'MGET', s}, {'DEL', s, z}, {'PUBLISH', channel, 'check'}, {publish, channel, 'check'},
  {'PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel},
}
if boot ~= '' then
  for _, call in ipairs({{'INFO'}, {'SETRANGE', s, 0, '1'}, {'OBJECT', 'ENCODING', s}}) do
    table.insert(calls, 3, call) -- after SET, which gives the key a TTL
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
