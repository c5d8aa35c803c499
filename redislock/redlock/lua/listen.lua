-- SPDX-License-Identifier: Apache-2.0
-- listen adds a client to the listeners, which are notified when a lock has ended, or
-- removes it.
-- KEYS: listeners
-- ARGV: client, 1 or 0, how long that is remembered in ms
-- Returns {1}

if ARGV[2] == '1' then
  redis.call('SADD', KEYS[1], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  redis.call('SREM', KEYS[1], ARGV[1])
end
return {1}
