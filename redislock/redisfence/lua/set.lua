return fence(KEYS[1], ARGV[1]) or redis.call('SET', KEYS[2], ARGV[2])
