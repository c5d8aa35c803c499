-- SPDX-License-Identifier: Apache-2.0
-- Every script of redislock begins with guard.lua and this file. Each call of a script
-- defines these functions anew, which takes time. So the functions that few calls need
-- are in queue.lua.
-- Gets: digits of guard.lua.
-- Gives: owned, alone, lengthen, upcoming, hold; FLOOR, KEEPS.

local FLOOR = '86400000' -- TTL of a token floor, in ms
local SPARE = 4000       -- the most tokens that are reserved with a lease
local LEAD = 10000       -- how far reserved tokens may be ahead of the clock, in us
local KEEPS = '"keeps":true' -- in the record of a lease that its client keeps after its release

-- owned reports whether the value of a lock, or an attempt, belongs to the lease.
local function owned(value, lease)
  return value and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end

-- alone returns the value of the lock if an exclusive lease holds it, else false. For a
-- key that is not a string, MGET returns nil where GET returns an error.
local function alone(lock) return redis.call('MGET', lock)[1] end

-- lengthen makes the lock live for at least ttl ms, and returns how many ms were left. It
-- never shortens the life: a request that the client has given up may arrive after a
-- later request with a longer TTL.
local function lengthen(lock, ttl)
  local left = redis.call('PTTL', lock)
  if tonumber(ttl) > left then redis.call('PEXPIRE', lock, ttl) end
  return left
end

-- upcoming returns the token that follows last, and how many tokens after it an exclusive
-- lease reserves for hand-offs within its client. If the floor is lost, the next token
-- comes from the clock. So tokens must not get far ahead of the clock: a lock that is
-- granted very often reserves few tokens.
local function upcoming(at, last)
  local token = math.max(at, last + 1)
  return token, math.max(0, math.min(SPARE, at + LEAD - token))
end

-- hold grants a lock to an exclusive lease for px ms, if nobody holds it. It returns the
-- token, which is greater than last, how many tokens after it are reserved, and the last
-- reserved token; or nothing if somebody holds the lock. It writes the floor first: if the
-- server lacks memory, it refuses this first write, and so nothing is recorded.
local function hold(lock, floor, at, last, px, lease, client, record)
  local token, spare = upcoming(at, last)
  local text = digits(token)
  redis.call('SET', floor, digits(token + spare), 'PX', FLOOR)
  local value = lease .. ' ' .. client .. ' ' .. text .. ' ' .. digits(at) .. ' ' .. record
  if redis.call('SET', lock, value, 'PX', px, 'NX') then return text, spare, token + spare end
end
