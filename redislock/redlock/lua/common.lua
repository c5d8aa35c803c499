-- SPDX-License-Identifier: Apache-2.0
-- Every script of redlock begins with guard.lua and with this file. What few calls need
-- is in state.lua, as making a function takes time.
-- Gives: owned, queued, dequeue, standing, store, other; FLOOR, LARGEST, NODES.

local FLOOR = '86400000' -- how long a floor is remembered, in ms
local LARGEST = 9007199254740991 -- the largest token: from 2^53 on numbers are not exact

local NODES = ':nodes' -- behind the key of the epoch: the record of the set of nodes that this node serves

-- other returns the record of the set of nodes if it does not begin with head, as the client
-- says. Without a head nothing is compared.
local function other(epoch, head)
  if head == '' then return nil end
  local record = redis.call('GET', epoch .. NODES) or ''
  return string.sub(record, 1, #head + 1) ~= head .. ' ' and record or nil
end

-- owned reports whether value, that of a lock, is that of the lease.
local function owned(value, lease)
  return value and lease ~= '' and (value == lease or string.sub(value, 1, #lease + 1) == lease .. ' ')
end

-- queued returns the key of the queue, beside that of the listeners.
local function queued(listeners) return string.sub(listeners, 1, -10) .. 'waiters' end

-- dequeue takes a lease out of the queue, or from the listeners, and reports whether it was there.
local function dequeue(listeners, lease)
  local queue = queued(listeners)
  if redis.call('ZREM', queue, lease) + redis.call('ZREM', listeners, lease) == 0 then return false end
  redis.call('DEL', queue .. ':' .. lease)
  return true
end

-- standing reads the record of a floor: its token and lease; the largest tokens that stand, of
-- any lease and of a writer, which are those that no failed attempt has left; and what
-- they were before this lease. All are strings of digits but the lease.
-- Of a record without a kind, as there were before ("TOKEN LEASE", or of a reader "TOKEN LEASE WRITER"),
-- it is not known what was before: no ending takes it back.
local function standing(record)
  local token, lease, kind, before, writer = string.match(record or '', '^(%d+) (%S+) (%a) (%d+) (%d+)$')
  if not token then return '0', '', '0', '0', '0', '0' end
  return token, lease, kind == 'x' and before or token, (kind == 'x' or kind == 'r') and writer or token, before, writer
end

-- store writes the record of a floor for a lease whose token is the largest.
local function store(floor, record, token, lease, shared)
  local _, owner, any, writers, before, writer = standing(record)
  if owner == lease then
    any, writers = before, writer
  end
  redis.call('SET', floor, token .. ' ' .. lease .. (shared and ' r ' or ' w ') .. any .. ' ' .. writers, 'PX', FLOOR)
end
