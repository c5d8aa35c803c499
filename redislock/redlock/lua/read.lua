-- SPDX-License-Identifier: Apache-2.0
-- read reads the states of names.
-- Gets: now of guard.lua; state.lua.
-- KEYS: for each name the lock, the floor, the listeners, the wishes
-- Returns {1, then for each name the state that add appends, the number of waiters in the queue, and for each of them its
-- lease, its place and its record, which is empty if its place has expired}

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
  local queue = queued(listeners)
  local line = redis.call('ZRANGE', queue, 0, -1, 'WITHSCORES')
  all[#all + 1] = #line / 2
  for k = 1, #line, 2 do
    -- CLIENT SEQ TOKEN TTL SET RECORD, as enqueue.lua says.
    local record = string.match(redis.call('GET', queue .. ':' .. line[k]) or '', '^%S+ %S+ %S+ %S+ %S* (.*)$')
    all[#all + 1], all[#all + 2], all[#all + 3] = line[k], line[k + 1], record or ''
  end
end
return all
