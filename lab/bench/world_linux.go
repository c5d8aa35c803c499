// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// world has the servers of a workload.
type world struct {
	servers  []*servers.Server
	dirs     []string
	Redis    []string // addresses
	ZK       string
	Etcd     string
	Postgres string // URL
}

// leaseTTL is the TTL of the leases. It is longer than any lease is held.
const leaseTTL = 30 * time.Second

// newWorld starts servers of the given kinds: redis, zk, etcd or postgres.
func newWorld(kinds []string) (w *world, err error) {
	w = new(world)
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	for _, kind := range kinds {
		// Syncs to a disk do not count. If we are root, PostgreSQL runs as another user, who must be able to reach the files.
		dir, err := os.MkdirTemp(servers.Memory(), "pawl-bench-"+kind+"-")
		if err != nil {
			return w, err
		}
		w.dirs = append(w.dirs, dir)
		if err := errors.Join(os.Chmod(dir, 0o711), w.start(kind, dir)); err != nil {
			return w, err
		}
	}
	return w, nil
}

// zkTick is the tickTime of ZooKeeper. pawl's clients have to know it, because their sessions are some ticks
// longer than the TTL.
const zkTick = 500 * time.Millisecond

// start starts a server in a directory of its own.
func (w *world) start(kind, dir string) error {
	var s *servers.Server
	switch kind {
	case "redis":
		r := servers.NewRedis(dir, "--maxclients", "20000")
		r.Program = "redis-server"
		s, r.Run = &r.Server, apart
		if err := r.Begin(); err != nil {
			return err
		}
		w.Redis = append(w.Redis, s.Addr)
	case "zk":
		z := servers.NewZooKeeper(dir, fmt.Sprint("tickTime=", zkTick.Milliseconds()))
		z.Java = []string{"-Xmx256m", "-XX:+UseSerialGC", "-Xshare:auto"}
		s, z.Run = &z.Server, apart
		if err := z.Begin(); err != nil {
			return err
		}
		w.ZK = s.Addr
	case "etcd":
		members, err := servers.BeginEtcd(dir, 1, apart, "--log-level", "error")
		if err != nil {
			return err
		}
		s, w.Etcd = &members[0].Server, members[0].Addr
	case "postgres":
		p, err := servers.BeginPostgres(dir, apart)
		if err != nil {
			return err
		}
		s, w.Postgres = &p.Server, p.URL("pawl")
	default:
		return fmt.Errorf("no kind of server: %q", kind)
	}
	w.servers = append(w.servers, s)
	return nil
}

// apart starts a process on the servers' processor.
func apart(cmd *exec.Cmd) error {
	_, processor, _ := pinned()
	return startOn(cmd, processor)
}

func (w *world) stop() {
	for _, s := range w.servers {
		s.End()
	}
	for _, dir := range w.dirs {
		// PostgreSQL's child processes end a little later, and may still write files.
		servers.Eventually(5*time.Second, func() bool { return os.RemoveAll(dir) == nil })
	}
}

// With assume_new, new Redis servers have no quarantine.
func (w *world) redisURL() string { return "redis://" + w.Redis[0] + "?assume_new=true" }
func (w *world) redlockURL() string {
	return "redlock://" + strings.Join(w.Redis, ",") + "?assume_new=true"
}

// versions returns the names and versions of the servers.
func (w *world) versions() (list []string) {
	say := func(there bool, program string) {
		if there {
			out, _ := exec.Command(program, "--version").Output()
			line, _, _ := strings.Cut(string(out), "\n")
			list = append(list, line)
		}
	}
	bin, _ := servers.PostgresBin()
	say(w.Redis != nil, "redis-server")
	say(w.Etcd != "", "etcd")
	say(w.Postgres != "", filepath.Join(bin, "postgres"))
	if w.ZK != "" {
		_, v, _ := strings.Cut(servers.Word(w.ZK, "srvr"), "Zookeeper version: ")
		v, _, _ = strings.Cut(v, "-")
		list = append(list, "ZooKeeper "+v)
	}
	return list
}

// cpu returns the processor time that all servers together have used so far.
func (w *world) cpu() (sum time.Duration, err error) {
	for _, s := range w.servers {
		d, err := cpuOf(s.Pid())
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
