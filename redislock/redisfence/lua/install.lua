return fence(KEYS[1], ARGV[1]) or redis.status_reply('OK')
