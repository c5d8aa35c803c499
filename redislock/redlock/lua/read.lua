-- SPDX-License-Identifier: Apache-2.0
-- read reads locks.
-- KEYS: lock, floor, listeners, for each name
-- Returns {1, and for each name: value or '', pttl ms, floor or '', listeners}

local all = {1}
for i = 1, #KEYS, 3 do
  local known = redis.call('MGET', KEYS[i], KEYS[i + 1])
  all[#all + 1] = known[1] or ''
  all[#all + 1] = redis.call('PTTL', KEYS[i])
  all[#all + 1] = known[2] or ''
  all[#all + 1] = redis.call('SCARD', KEYS[i + 2])
end
return all
