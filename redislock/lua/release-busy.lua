-- SPDX-License-Identifier: Apache-2.0
-- The rest of release, one lock after the other.

local function finish(lock, floor, queue, ended, lease)
  local attempt = record == '' and '' or join(lease, client, kind, record)
  local done, first = 0, false
  if waiting == '1' then
    first = redis.call('ZRANGE', queue, 0, 0)[1] == attempt
    done = redis.call('ZREM', queue, attempt)
  end
  local value, freed, free = alone(lock), false, false
  if owned(value, lease) then
    redis.call('DEL', lock)
    freed, free = true, true
  elseif not value then
    if attempt == '' then attempt = find(lock, lease) or '' end
    freed = leave(lock, attempt, now())
  end
  if freed then done = 1 end
  -- Known if it is the only lock; of another program, it keeps nobody from releasing.
  local line = (freed or first) and (line or redis.pcall('ZRANGE', queue, 0, 1))
  if line and line[1] then
    go(lock, floor, queue, KEYS[1], claim, channel, now(), first, free, line)
  end
  -- That request may be executed yet. Want of memory must not stop the release.
  if doubt == '1' then redis.pcall('SET', ended, '', 'PX', ENDED) end
  return {done}
end

for i = 1, n do
  answers[i] = answers[i] or each(n, finish, KEYS[2 * n + 1 + i], KEYS[1 + i], KEYS[3 * n + 1 + i], KEYS[n + 1 + i], ARGV[7 + i])
end
return answers
