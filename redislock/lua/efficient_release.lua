-- SPDX-License-Identifier: Apache-2.0
-- release of Efficiency is a compare-and-delete.
-- KEYS: lock
-- ARGV: lease
-- Returns {1} if the lease was the holder, else {0}.

local lock, lease = KEYS[1], ARGV[1]

local value = redis.pcall('GET', lock) -- what several hold together is no string
if type(value) ~= 'string' or string.sub(value, 1, #lease + 1) ~= lease .. ' ' then return {0} end
return {redis.call('DEL', lock)}
