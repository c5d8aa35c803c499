// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// server is a server process on loopback, with its own directory.
type server struct {
	*servers.Server
	kind string // redis, zk, etcd, postgres
	dir  string
}

// zkTick is the tickTime of ZooKeeper. pawl's clients have to know it, because their sessions are some ticks
// longer than the TTL.
const zkTick = 500 * time.Millisecond

func (s *server) stop() {
	s.End()
	// PostgreSQL's child processes end a little later, and may still write files.
	servers.Eventually(5*time.Second, func() bool { return os.RemoveAll(s.dir) == nil })
}

// apart starts a process on the servers' processor.
func apart(cmd *exec.Cmd) error {
	_, processor, _ := pinned()
	return startOn(cmd, processor)
}

// start starts a server of the given kind: redis, zk, etcd or postgres.
func start(kind string) (*server, error) {
	// Syncs to a disk do not count.
	dir, err := os.MkdirTemp(servers.Memory(), "pawl-bench-"+kind+"-")
	if err != nil {
		return nil, err
	}
	s := &server{kind: kind, dir: dir}
	switch kind {
	case "redis":
		r := servers.NewRedis(dir, "--maxclients", "20000")
		r.Program = "redis-server"
		s.Server, r.Run = &r.Server, apart
		err = r.Begin()
	case "zk":
		z := servers.NewZooKeeper(dir, fmt.Sprint("tickTime=", zkTick.Milliseconds()))
		z.Java = []string{"-Xmx256m", "-XX:+UseSerialGC", "-Xshare:auto"}
		s.Server, z.Run = &z.Server, apart
		err = z.Begin()
	case "etcd":
		var members []*servers.Etcd
		if members, err = servers.BeginEtcd(dir, 1, apart, "--log-level", "error"); err == nil {
			s.Server = &members[0].Server
		}
	case "postgres":
		err = s.postgres()
	default:
		err = fmt.Errorf("no kind of server: %q", kind)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// postgres starts a PostgreSQL server. If we are root, it runs as another user, who must be able to
// reach the files.
func (s *server) postgres() error {
	if err := os.Chmod(s.dir, 0o711); err != nil {
		return err
	}
	p, err := servers.BeginPostgres(s.dir, apart)
	if err != nil {
		return err
	}
	s.Server = &p.Server
	return nil
}

func postgresVersion() []string {
	bin, _ := servers.PostgresBin()
	return []string{filepath.Join(bin, "postgres"), "--version"}
}
