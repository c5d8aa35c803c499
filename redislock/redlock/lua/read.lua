-- SPDX-License-Identifier: Apache-2.0
-- read reads locks.
-- KEYS: lock, floor, listeners, wishes, for each name
-- Returns {1, and for each name as add says}

local all, at = {1}, now()
for i = 1, #KEYS, 4 do
  local known = redis.call('MGET', KEYS[i], KEYS[i + 1])
  add(all, known[1], redis.call('PTTL', KEYS[i]), known[1] and {} or scored(KEYS[i], at), math.huge,
    known[2], KEYS[i + 2], KEYS[i + 3], at)
end
return all
