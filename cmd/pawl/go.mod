module github.com/pawl-go/pawl/cmd/pawl

go 1.26.0

require (
	github.com/creack/pty v1.1.24
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	golang.org/x/sys v0.49.0
)

require (
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
