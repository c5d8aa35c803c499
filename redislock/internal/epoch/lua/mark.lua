-- SPDX-License-Identifier: Apache-2.0
-- mark writes something. Replicas that have it have all that was written before.
-- KEYS: a key that nobody reads

return redis.call('SET', KEYS[1], '', 'PX', 1000)
