module github.com/pawl-go/pawl/redislock/goredis

go 1.26.0

require (
	github.com/pawl-go/pawl v0.1.0
	github.com/pawl-go/pawl/redislock v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
