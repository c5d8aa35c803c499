-- SPDX-License-Identifier: Apache-2.0
-- The script decide of redlock as a function, script, is above. This calls it, and writes to the log of the server what it
-- was asked, what it answered, and what the node has said by then.
-- Gets: now, digits, boot of guard.lua.

local at = digits(now())
local ok, reply = pcall(script)
redis.log(redis.LOG_WARNING, 'traced ' .. cjson.encode({
  script = 'decide', at = at, boot = boot, self = string.match(redis.call('GET', KEYS[1]) or '', ' ([^ ;]+);%d+;'), args = ARGV, answers = {ok and not reply.err and reply[1] or -99},
  said = redis.call('GET', KEYS[2]) or '',
}))
if not ok then error(reply) end
return reply
