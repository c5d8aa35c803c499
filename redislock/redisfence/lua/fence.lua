-- fence raises the token in the guard key. If the guard key has a larger token, fence
-- returns the error reply STALE with that token. It compares tokens as text, first by
-- length: Lua numbers above 2^53 are not exact.
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
