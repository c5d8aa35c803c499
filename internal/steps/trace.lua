-- SPDX-License-Identifier: Apache-2.0
-- A script of redlock as a function, script, is above. This calls it, and writes to the log of the server
-- what it was asked, what it answered, and what the locks were before and after it: in the
-- same step, so that nothing can come between.
-- Gets: now, digits, boot of guard.lua; traced, the name of the script.

local count = (#KEYS - 1) / 5
local began = now()

-- lock reads a lock: the values that have not ended, each with the ms that are left, and whether they are shared.
local function lock(key)
  local kind, found = redis.call('TYPE', key).ok, {}
  if kind == 'string' then
    found[1] = {value = redis.call('GET', key), left = redis.call('PEXPIRETIME', key) - math.floor(began / 1000), shared = false}
  elseif kind == 'zset' then
    local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
      local left = tonumber(all[i + 1]) - began
      if left > 0 then found[#found + 1] = {value = all[i], left = math.ceil(left / 1000), shared = true} end
    end
  end
  return found[1] and found or nil
end

-- look reads all that the script is about. The keys of the two scripts are in another order.
local function look()
  local all = {}
  for i = 1, count do
    local floor, mark, held = KEYS[1 + i], KEYS[count + 1 + i], KEYS[2 * count + 1 + i]
    if traced == 'end' then floor, mark, held = KEYS[4 * count + 1 + i], KEYS[1 + i], KEYS[count + 1 + i] end
    all[i] = {key = held, floor = redis.call('GET', floor) or '', ended = redis.call('EXISTS', mark) == 1, locks = lock(held)}
  end
  return all
end

local before = look()
local ok, reply = pcall(script)
local answers = {}
for i = 1, count do
  local one = ok and not reply.err and reply[i]
  answers[i] = one and not one.err and one[1] or -99
end
redis.log(redis.LOG_WARNING, 'traced ' .. cjson.encode({
  script = traced, at = digits(began), boot = boot, set = set, args = ARGV, answers = answers, before = before, after = look(),
}))
if not ok then error(reply) end
return reply
