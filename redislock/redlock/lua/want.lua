-- SPDX-License-Identifier: Apache-2.0
-- want makes a writer's wish to have the name alone, or takes the wish away.
-- Gets: now of guard.lua; state.lua.
-- KEYS: the lock, the floor, the listeners, the wishes
-- ARGV: the writer's lease; how long the wish lasts in ms, or 0 to take it away; the channel
-- Returns {1, then the state that add appends}

local lock, floor, listeners, wishes = unpack(KEYS)
local who, ms, channel = unpack(ARGV)

local at = now()
local known = redis.call('MGET', lock, floor)
local live = scored(wishes, at)
if tonumber(ms) > 0 then
  put(wishes, who, at + ms * 1000, live, at)
elseif redis.call('ZREM', wishes, who) == 1 and wished(wishes, at) == 0 then
  wake(listeners, channel)
end
return add({1}, lock, known[1], known[1] and {} or scored(lock, at), 16, known[2], listeners, wishes, at)
