-- fence raises the token that the guard key has, or returns the error reply STALE with
-- the larger one that it has. It compares tokens as text, by length first: numbers of
-- Lua are not exact from 2^53 on.
local function fence(guard, token)
  if not string.match(token, '^[1-9]%d*$') or #token > 19 then
    return redis.error_reply('NOTOKEN what was sent is no fencing token: send the digits of the lease\'s')
  end
  local seen = redis.call('GET', guard)
  if seen then
    if not string.match(seen, '^[1-9]%d*$') then
      return redis.error_reply('GARBLED the guard key holds no fencing token')
    end
    if #seen > #token or #seen == #token and seen > token then
      return redis.error_reply('STALE ' .. seen)
    end
  end
  if seen ~= token then
    redis.call('SET', guard, token)
  end
end
