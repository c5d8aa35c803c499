module github.com/pawl-go/pawl/zklock

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/pawl-go/pawl v0.1.0
)
