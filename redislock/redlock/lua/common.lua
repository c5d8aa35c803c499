-- SPDX-License-Identifier: Apache-2.0
-- Every script of redlock begins with guard.lua and with this file. Functions that few
-- calls need are in state.lua, because making a function takes time.
-- Gives: owned, queued, dequeue, first, standing, store, other; FLOOR, LARGEST, NODES.

local FLOOR = '86400000' -- how long a floor is remembered, in ms
local LARGEST = 9007199254740991 -- the largest token: from 2^53 on numbers are not exact

local NODES = ':nodes' -- after the key of the epoch: the key of the record of the set of nodes that this node serves

-- other returns the record of the set of nodes if it does not begin with head, which the
-- client expects. An empty head matches every record.
local function other(epoch, head)
  if head == '' then return nil end
  local record = redis.call('GET', epoch .. NODES) or ''
  return string.sub(record, 1, #head + 1) ~= head .. ' ' and record or nil
end

-- owned reports whether value, the value of a lock, belongs to the lease.
local function owned(value, lease)
  return value and lease ~= '' and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end

-- queued returns the key of the queue, which differs from the key of the listeners in its end.
local function queued(listeners) return string.sub(listeners, 1, -10) .. 'waiters' end

-- first returns the first lease in the queue. A loop 'for lease in first, queue' asks for it anew each time, until the queue
-- is empty.
local function first(queue) return redis.call('ZRANGE', queue, 0, 0)[1] end

-- dequeue takes a lease out of the queue, or from the listeners, and reports whether it was there.
local function dequeue(listeners, lease)
  local queue = queued(listeners)
  if redis.call('ZREM', queue, lease) + redis.call('ZREM', listeners, lease) == 0 then return false end
  redis.call('DEL', queue .. ':' .. lease)
  return true
end

-- standing reads the record of a floor, 'TOKEN LEASE KIND BEFORE WRITER'. A token stands unless
-- a failed attempt has left it. standing returns the token and its lease; then the largest
-- tokens that stand, of any lease and of a writer; then what these two were before the lease
-- stored its token. All but the lease are strings of digits.
local function standing(record)
  local token, lease, kind, before, writer = string.match(record or '', '^(%d+) (%S+) (%a) (%d+) (%d+)$')
  if not token then return '0', '', '0', '0', '0', '0' end
  return token, lease, kind == 'x' and before or token, (kind == 'x' or kind == 'r') and writer or token, before, writer
end

-- store writes the record of a floor for a lease whose token is the largest. record is the one before.
local function store(floor, record, token, lease, shared)
  local _, owner, any, writers, before, writer = standing(record)
  if owner == lease then
    any, writers = before, writer
  end
  redis.call('SET', floor, token .. ' ' .. lease .. (shared and ' r ' or ' w ') .. any .. ' ' .. writers, 'PX', FLOOR)
end
