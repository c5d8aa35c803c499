-- SPDX-License-Identifier: Apache-2.0
-- read reads the states of names.
-- Gets: now of guard.lua; state.lua.
-- KEYS: for each name the lock, the floor, the listeners, the wishes
-- Returns {1, then for each name the state that add appends}

local all, at = {1}, now()
for i = 1, #KEYS, 4 do
  local lock, floor, listeners, wishes = unpack(KEYS, i, i + 3)
  local known = redis.call('MGET', lock, floor)
  local value, live = known[1], {}
  if not value then
    local ok
    ok, live = pcall(scored, lock, at)
    if not ok then value, live = '?', {} end -- the lock of another library, which uses another type
  end
  add(all, lock, value, live, math.huge, known[2], listeners, wishes, at)
end
return all
