// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Redis is a Redis server. It runs the program in $CHAOS_REDIS_SERVER, or redis-server.
type Redis struct {
	Process
	Addr string // address of the server itself
	port string
	time *clock     // its wall clock; nil: the machine's clock
	down sync.Mutex // held by a fault that has killed the server, until it starts the server again: another fault would start it too early
}

// NewRedis starts a server in a folder, with more settings.
func NewRedis(dir string, clock bool, args ...string) (*Redis, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	r := &Redis{port: ports[0], Addr: "127.0.0.1:" + ports[0]}
	r.Dir = dir
	r.Args = append(program("CHAOS_REDIS_SERVER", "redis-server"), "--port", r.port, "--bind", "127.0.0.1", "--save", "", "--dir", dir,
		"--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", "--repl-timeout", "10")
	r.Args = append(r.Args, args...)
	if clock {
		if err := r.fakeClock(); err != nil {
			return nil, err
		}
	}
	return r, r.Up()
}

// fakeClock makes the server use a wall clock in a file. The file is beside the server's folder,
// because Wipe empties the folder. jemalloc asks for the time before libfaketime is ready, so
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

// Up starts the server unless it runs, and waits until it answers.
func (r *Redis) Up() error {
	if err := r.Start(); err != nil {
		return err
	}
	return await("redis-server on "+r.port, start, func() error {
		if !r.Runs() {
			out, _ := os.ReadFile(r.Log())
			return fmt.Errorf("%w: %s", errEnded, out[max(0, len(out)-500):])
		}
		_, err := r.Do("PING")
		if err != nil && strings.HasPrefix(err.Error(), "MASTERDOWN") {
			return nil
		}
		return err
	})
}

// Do sends a command directly to the server, not over a link.
func (r *Redis) Do(args ...string) (string, error) { return ask(r.Addr, 3*time.Second, args...) }

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
