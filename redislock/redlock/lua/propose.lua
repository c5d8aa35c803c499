-- SPDX-License-Identifier: Apache-2.0
-- propose asks for a lock, or for more time, or that it be shared. To repeat it is
-- harmless.
-- KEYS: lock, floor, epoch, mark of the lease, listeners, wishes
-- ARGV: mode (take, extend, heal), lease, from or '', token, ttl ms, client, record,
-- shared (1 or 0), channel, message
-- Returns {1, run, floor, closed ms, 1 if stored} if the lease has a lock;
-- {0, run, closed ms, ended (1 or 0), news, and as add says};
-- {-1} if the record of the epoch is missing.

local lock, floor, epoch, mark, listeners, wishes = unpack(KEYS)
local mode, lease, from, token, ttl, client, record, shared, channel, message = unpack(ARGV)
shared = shared == '1'

-- MGET takes what is no string for nothing.
local known = redis.call('MGET', lock, floor, epoch, mark)
local value, news = known[1], known[4]
local last, owner, writer = string.match(known[2] or '', '^(%d+) ?(%S*) ?(%d*)$')
last = last or '0'
if not writer or writer == '' then writer = last end -- the last to store it was a writer
local fits = tonumber(token) > tonumber(last) or tonumber(token) == tonumber(last) and owner == lease
local at = now()

-- A free lock is taken without a look at what may lie in its place: SET sees it.
if mode == 'take' and not shared and from == '' and not value and not news and closed(epoch, known[3], at) == 0 and
    redis.call('SET', lock, lease .. ' ' .. client .. ' ' .. (fits and token or '0') .. ' ' .. digits(at) .. ' ' .. record, 'PX', ttl, 'NX') then
  if fits then
    redis.call('SET', floor, token .. ' ' .. lease, 'PX', FLOOR)
    last = token
  end
  return {1, boot, last, 0, fits and 1 or 0}
end

local live = value and {} or scored(lock, at)

-- mine is the lock that the lease has, and till when it has it.
local mine, till = owned(value, lease) and value, 0
for i = 1, #live, 2 do
  if owned(live[i], lease) then
    mine, till = live[i], live[i + 1]
  end
end

local has, shut = false, 0
if not news then
  local heir = owned(value, from)
  if mine then
    has = true
  elseif heir or not value and (#live == 0 or shared) then
    shut = closed(epoch, known[3], at)
    if shut < 0 then return {-1} end
    if shut > 0 or not heir and from ~= '' or heir and shared then
      has = false
    elseif mode == 'take' then
      has = not shared or wished(wishes, at) == 0
    elseif mode == 'heal' then
      has = fits or shared and tonumber(token) >= tonumber(writer)
    end
  end
end
if not has then
  return add({0, boot, math.ceil(shut / 1000), news and 1 or 0, news or ''},
    value, redis.call('PTTL', lock), live, 16, last, listeners, wishes, at)
end

local px = tonumber(ttl)
if mine then
  if value then
    px = math.max(px, redis.call('PTTL', lock))
  end
  till = math.max(till, at + px * 1000)
  -- This needs no memory, and after it a server that has none accepts the rest.
  redis.call('PEXPIRE', lock, millis(math.max(till, live[#live] or 0), at))
else
  till = at + px * 1000
end
-- The floor is written before a new lock: what is refused for lack of memory has
-- then recorded nothing.
if fits then
  redis.call('SET', floor, token .. ' ' .. lease .. (shared and ' ' .. writer or ''), 'PX', FLOOR)
  last = token
elseif mine then
  redis.call('PEXPIRE', floor, FLOOR)
end

local new
if mine then
  local who, stored, rest = string.match(mine, '^(%S+ %S+) (%S+) (.*)$')
  new = who .. ' ' .. (fits and token or stored) .. ' ' .. rest
else
  new = lease .. ' ' .. client .. ' ' .. (fits and token or '0') .. ' ' .. digits(at) .. ' ' .. record
end
if not shared and (value or not mine) then
  if new ~= mine then redis.call('SET', lock, new, 'PX', px) end
else
  if value then
    redis.call('DEL', lock, wishes)
  end
  put(lock, new, till, live, at)
  if mine and not value and new ~= mine then redis.call('ZREM', lock, mine) end
  if value then wake(listeners, channel, message) end
end
return {1, boot, last, 0, fits and 1 or 0}
