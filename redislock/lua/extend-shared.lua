-- SPDX-License-Identifier: Apache-2.0
-- The rest of extend: others may hold the lock with the lease.

local left = stay(lock, attempt, ttl, at)
if not left then return {0, at} end
return {1, left, at}
