module github.com/pawl-go/pawl/redislock

go 1.26.0

require (
	github.com/pawl-go/pawl v0.1.0
	github.com/redis/rueidis v1.0.79
)

require golang.org/x/sys v0.49.0 // indirect
