-- SPDX-License-Identifier: Apache-2.0
-- propose asks for a lock, or for more time. To repeat it is harmless.
-- KEYS: lock, floor, epoch, mark of the lease, listeners
-- ARGV: mode (take, extend, heal), lease, from or '', token, ttl ms, client, record
-- Returns {1, run, floor, closed ms, 1 if stored} if the lease has the lock;
-- {0, run, floor, closed ms, value or '', pttl ms, listeners, ended (1 or 0), news};
-- {-1} if the record of the epoch is missing.

local lock, floor, epoch, mark, listeners = unpack(KEYS)
local mode, lease, from, token, ttl, client, record = unpack(ARGV)

local known = redis.call('MGET', lock, floor, epoch, mark)
local value, news = known[1], known[4]
local last, owner = string.match(known[2] or '', '^(%d+) ?(.*)$')
last = last or '0'
local fits = tonumber(token) > tonumber(last) or tonumber(token) == tonumber(last) and owner == lease

local had, has, shut, at = owned(value, lease), false, 0, 0
if not news then
  local heir = owned(value, from)
  if had then
    has = true
  elseif not value or heir then
    -- MGET takes what is no string for nothing.
    if not value and redis.call('EXISTS', lock) == 1 then return redis.error_reply('WRONGTYPE the lock is no string') end
    at = now()
    shut = closed(epoch, known[3], at)
    if shut < 0 then return {-1} end
    has = shut == 0 and (heir or from == '') and (mode == 'take' or mode == 'heal' and fits)
  end
end
if not has then
  return {0, boot, last, math.ceil(shut / 1000), value or '', redis.call('PTTL', lock), redis.call('SCARD', listeners),
    news and 1 or 0, news or ''}
end

local px = ttl
if had then
  local left = redis.call('PTTL', lock)
  if left > tonumber(ttl) then px = left end
  -- This needs no memory, and after it a server that has none accepts the rest.
  redis.call('PEXPIRE', lock, px)
end
-- The floor is written before a new lock: what is refused for lack of memory has
-- then recorded nothing.
if fits then
  redis.call('SET', floor, token .. ' ' .. lease, 'PX', FLOOR)
  last = token
end
if not had then
  value = lease .. ' ' .. client .. ' ' .. (fits and token or '0') .. ' ' .. digits(at) .. ' ' .. record
  redis.call('SET', lock, value, 'PX', px)
elseif fits then
  local who, stored, rest = string.match(value, '^(%S+ %S+) (%S+) (.*)$')
  if stored ~= token then
    redis.call('SET', lock, who .. ' ' .. token .. ' ' .. rest, 'PX', px)
  end
end
return {1, boot, last, 0, fits and 1 or 0}
