-- SPDX-License-Identifier: Apache-2.0
-- Every script of redislock begins with guard.lua and with this file. To make these
-- functions, which every call does, takes time; so what few calls need is in queue.lua.
-- Gets: digits of guard.lua.
-- Gives: owned, alone, lengthen, upcoming, hold; FLOOR.

local FLOOR = '86400000' -- how long a token is remembered, in ms
local SPARE = 4000       -- how many tokens after its own a lease may have for its client
local LEAD = 10000       -- how far tokens may be ahead of the clock, in us

-- owned says whether what holds a lock, or an attempt, is that of the lease.
local function owned(value, lease)
  return value and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end

-- alone returns the value of the lock if one lease holds it for itself. For MGET
-- what is no string is nothing, and no error.
local function alone(lock) return redis.call('MGET', lock)[1] end

-- lengthen makes the lock live for ttl ms at least, and returns how many were
-- left. A request that was given up may come late, after one for a longer TTL.
local function lengthen(lock, ttl)
  local left = redis.call('PTTL', lock)
  if tonumber(ttl) > left then redis.call('PEXPIRE', lock, ttl) end
  return left
end

-- upcoming returns the token after last, and how many after it are set aside for its
-- lease if that is exclusive: it is passed on within its client without the server. So
-- that those who get a lock very often are not ahead of the clock in the end, which says
-- what comes next when the floor is forgotten, these are few then.
local function upcoming(at, last)
  local token = math.max(at, last + 1)
  return token, math.max(0, math.min(SPARE, at + LEAD - token))
end

-- hold gives a lock to an exclusive lease for px ms, if that is not there yet (NX), or is
-- there (XX). It returns the token, which is greater than the last, how many after it are
-- set aside, and the last of those; or nothing. The floor is written first: what is refused for lack of
-- memory has then recorded nothing.
local function hold(lock, floor, at, last, px, lease, client, record, how)
  local token, spare = upcoming(at, last)
  local text = digits(token)
  redis.call('SET', floor, digits(token + spare), 'PX', FLOOR)
  local value = lease .. ' ' .. client .. ' ' .. text .. ' ' .. digits(at) .. ' ' .. record
  if redis.call('SET', lock, value, 'PX', px, how) then return text, spare, token + spare end
end
