-- SPDX-License-Identifier: Apache-2.0
-- mark writes a key. Replicas that have it have all earlier writes.
-- KEYS: a key that is never read

return redis.call('SET', KEYS[1], '', 'PX', 1000)
