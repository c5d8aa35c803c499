// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Redis is a server without persistence.
type Redis struct {
	Server
	Program string   // RedisServer unless set
	Args    []string // further settings
	Env     []string // of the process, besides our own
}

// RedisServer is the program: $PAWL_REDIS_SERVER may name another one, such as
// valkey-server.
func RedisServer() string { return cmp.Or(os.Getenv("PAWL_REDIS_SERVER"), "redis-server") }

// NewRedis returns a server that is not started yet.
func NewRedis(dir string, args ...string) *Redis {
	r := &Redis{Program: RedisServer(), Args: args}
	r.Dir, r.often = dir, 2*time.Millisecond
	r.command = func() (*exec.Cmd, error) {
		base := []string{"--port", r.port(), "--bind", "127.0.0.1", "--save", "", "--dir", r.Dir, "--daemonize", "no"}
		cmd := exec.Command(r.Program, append(base, r.Args...)...)
		cmd.Env = append(os.Environ(), r.Env...)
		return cmd, nil
	}
	// Only the log shows that this server answers and not another one.
	r.serves = func() bool { return strings.Contains(r.Output(), "Ready to accept connections") }
	return r
}

// StartRedis starts a server that ends with the test.
func StartRedis(t T, args ...string) *Redis {
	t.Helper()
	r := NewRedis(t.TempDir(), args...)
	if err := r.Begin(); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(r.End)
	return r
}

// Do sends a command as redis-cli would and returns the answer.
func (r *Redis) Do(args ...string) (string, error) {
	out, err := exec.Command("redis-cli", append([]string{"-h", "127.0.0.1", "-p", r.port()}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("redis-cli %v: %w\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}
