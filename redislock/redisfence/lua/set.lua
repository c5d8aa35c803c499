local stale = fence(KEYS[1], ARGV[1])
if stale then
  return stale
end
return redis.call('SET', KEYS[2], ARGV[2])
