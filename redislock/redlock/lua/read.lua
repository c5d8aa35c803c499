-- SPDX-License-Identifier: Apache-2.0
-- read reads locks.
-- KEYS: the locks
-- Returns {1, and for each name as add says}

local all, at = {1}, now()
for _, lock in ipairs(KEYS) do
  local known = redis.call('MGET', lock, lock .. ':token')
  add(all, lock, known[1], known[1] and {} or scored(lock, at), math.huge, known[2], at)
end
return all
