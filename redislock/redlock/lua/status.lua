-- SPDX-License-Identifier: Apache-2.0
-- status says how the node is.
-- KEYS: epoch
-- Returns {1, run, closed ms}; {-1} if the record of the epoch is missing.

local shut = closed(KEYS[1], redis.call('GET', KEYS[1]), now())
if shut < 0 then return {-1} end
return {1, boot, math.ceil(shut / 1000)}
