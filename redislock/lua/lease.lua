-- SPDX-License-Identifier: Apache-2.0
-- Every script of redislock begins with guard.lua and with this file. Every call makes
-- these functions, which takes time; so queue.lua has what few calls need.
-- Gets: digits of guard.lua.
-- Gives: owned, alone, lengthen, upcoming, hold; FLOOR, KEEPS.

local FLOOR = '86400000' -- how long a token is remembered, in ms
local SPARE = 4000       -- how many tokens after its own a lease may have for its client
local LEAD = 10000       -- how far tokens may be ahead of the clock, in us
local KEEPS = '"keeps":true' -- in the record of a lease whose client may keep it when nobody uses it

-- owned reports whether the value of a lock, or an attempt, belongs to the lease.
local function owned(value, lease)
  return value and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end

-- alone returns the value of the lock if one lease holds it for itself. MGET returns
-- nothing for a key that is not a string, and no error.
local function alone(lock) return redis.call('MGET', lock)[1] end

-- lengthen makes the lock live for at least ttl ms, and returns how many were left. It
-- never shortens that: a request that was given up may come late, after one for a
-- longer TTL.
local function lengthen(lock, ttl)
  local left = redis.call('PTTL', lock)
  if tonumber(ttl) > left then redis.call('PEXPIRE', lock, ttl) end
  return left
end

-- upcoming returns the token after last, and how many after it are reserved for its
-- lease if that is exclusive, for hand-offs within its client. The clock gives the next
-- token when the floor is forgotten. So if a lock is granted very often, only few
-- tokens are reserved, so that tokens do not get ahead of the clock.
local function upcoming(at, last)
  local token = math.max(at, last + 1)
  return token, math.max(0, math.min(SPARE, at + LEAD - token))
end

-- hold gives a lock to an exclusive lease for px ms, if nobody has it. It returns the
-- token, which is greater than the last, how many after it are reserved, and the last of
-- those; or nothing. It writes the floor first: if that is refused for lack of memory,
-- nothing has been recorded.
local function hold(lock, floor, at, last, px, lease, client, record)
  local token, spare = upcoming(at, last)
  local text = digits(token)
  redis.call('SET', floor, digits(token + spare), 'PX', FLOOR)
  local value = lease .. ' ' .. client .. ' ' .. text .. ' ' .. digits(at) .. ' ' .. record
  if redis.call('SET', lock, value, 'PX', px, 'NX') then return text, spare, token + spare end
end
