-- SPDX-License-Identifier: Apache-2.0
-- mark writes a key. A replica that has the key also has all earlier writes.
-- KEYS: a key that nobody reads

return redis.call('SET', KEYS[1], '', 'PX', 1000)
