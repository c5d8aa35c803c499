module github.com/pawl-go/pawl/sim

go 1.26.0

require (
	github.com/pawl-go/pawl v0.1.0
	github.com/pawl-go/pawl/redislock v0.1.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
