// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// Redis is a Redis server or a sentinel. It runs the program in $CHAOS_REDIS_SERVER, or redis-server.
type Redis struct {
	*servers.Redis
	time *clock     // its wall clock; nil: the machine's clock
	down sync.Mutex // held by a fault that has killed the server, until it starts the server again: another fault would start it too early
}

// newRedis starts a server in a folder of its own, with more settings.
func (s Settings) newRedis(name string, args ...string) (*Redis, error) {
	r, err := s.redis(name, args...)
	if err != nil {
		return nil, err
	}
	return r, r.begin()
}

// redis returns a server that is not started yet.
func (s Settings) redis(name string, args ...string) (*Redis, error) {
	dir := filepath.Join(s.Dir, name)
	r := &Redis{Redis: servers.NewRedis(dir, append([]string{
		"--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", "--repl-timeout", "10"}, args...)...)}
	if s.Clocks {
		if err := r.fakeClock(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Redis) begin() error {
	r.Program = cmp.Or(os.Getenv("CHAOS_REDIS_SERVER"), "redis-server")
	r.Log = logIn(r.Dir)
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	return r.Begin()
}

// fakeClock makes the server use a wall clock in a file. The file is beside the server's folder,
// because wipe empties the folder. jemalloc asks for the time before libfaketime is ready, so
// fakeClock preloads libc, whose allocator replaces jemalloc.
func (r *Redis) fakeClock() error {
	libc, err := filepath.Glob("/lib/*/libc.so.6")
	if err != nil || len(libc) == 0 {
		return fmt.Errorf("there is no libc.so.6 (%w)", err)
	}
	if r.time, err = newClock(r.Dir + ".time"); err != nil {
		return err
	}
	r.Env = r.time.env(libc[0])
	return nil
}

// wipe deletes the data of the server, and keeps what a node knows of its cluster.
func (r *Redis) wipe() error {
	entries, err := os.ReadDir(r.Dir)
	for _, e := range entries {
		if path := filepath.Join(r.Dir, e.Name()); err == nil && path != r.Log && e.Name() != "nodes.conf" {
			err = os.RemoveAll(path)
		}
	}
	return err
}

// Do sends a command directly to the server, not over a link.
func (r *Redis) Do(args ...string) (string, error) { return r.Call(3*time.Second, args...) }

// Info returns a field of INFO, or of CLUSTER INFO.
func (r *Redis) Info(section, field string) string {
	args := []string{"INFO", section}
	if section == "cluster" {
		args = []string{"CLUSTER", "INFO"}
	}
	out, _ := r.Do(args...)
	for line := range strings.Lines(out) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), ":"); k == field {
			return v
		}
	}
	return ""
}
