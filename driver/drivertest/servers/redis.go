// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Redis is a Redis server without persistence.
type Redis struct {
	Server
	Program string   // NewRedis sets it to RedisServer()
	Args    []string // further settings
}

// RedisServer returns the program of the server: redis-server, or another one that
// $PAWL_REDIS_SERVER names, such as valkey-server.
func RedisServer() string { return cmp.Or(os.Getenv("PAWL_REDIS_SERVER"), "redis-server") }

// NewRedis returns a server that is not started yet.
func NewRedis(dir string, args ...string) *Redis {
	r := &Redis{Program: RedisServer(), Args: args}
	r.Dir, r.often = dir, 2*time.Millisecond
	r.command = func() (*exec.Cmd, error) {
		base := []string{"--port", r.port(), "--bind", "127.0.0.1", "--save", "", "--dir", r.Dir, "--daemonize", "no"}
		return exec.Command(r.Program, append(base, r.Args...)...), nil
	}
	// Another server may have the port, so an answer there proves nothing. The log does.
	r.serves = func() bool { return strings.Contains(r.Output(), "Ready to accept connections") }
	return r
}

// NewSentinel returns a sentinel that is not started yet, with lines in its file that name the master.
func NewSentinel(dir string, lines ...string) *Redis {
	r := NewRedis(dir)
	r.command = func() (*exec.Cmd, error) {
		conf, port := filepath.Join(dir, "sentinel.conf"), "port "+r.port()+"\n"
		cmd := exec.Command(r.Program, conf, "--sentinel")
		if b, _ := os.ReadFile(conf); strings.Contains(string(b), port) {
			return cmd, nil // the sentinel has written there what it knows
		}
		return cmd, os.WriteFile(conf, []byte(port+"bind 127.0.0.1\ndir "+dir+"\n"+strings.Join(lines, "\n")+"\n"), 0o600)
	}
	r.serves = func() bool { return strings.Contains(r.Output(), "+monitor master") }
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

// StoreURL returns the URL of a store on new servers: redis:// for one server, redlock:// for
// several. The store grants leases at once, without a quarantine.
func StoreURL(all ...*Redis) string {
	scheme := "redis://"
	var addrs []string
	for _, r := range all {
		addrs = append(addrs, r.Addr)
	}
	if len(all) > 1 {
		scheme = "redlock://"
	}
	return scheme + strings.Join(addrs, ",") + "?assume_new=true"
}

// Do sends a command over a new connection, and returns the answer as redis-cli prints
// it: a line for each element, and an error as its text. It runs redis-cli only if
// args begin with an option, or if a password is needed: starting a process for each command
// takes longer than most tests.
func (r *Redis) Do(args ...string) (string, error) {
	if strings.HasPrefix(args[0], "-") || os.Getenv("REDISCLI_AUTH") != "" {
		out, err := exec.Command("redis-cli", append([]string{"-h", "127.0.0.1", "-p", r.port()}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("redis-cli %v: %w\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out)), err
	}
	answer, err := r.Call(Patience, args...)
	if refused := Refused(""); errors.As(err, &refused) {
		return string(refused), nil
	}
	return strings.TrimSpace(answer), err
}

// Refused is an error that the server has answered.
type Refused string

func (r Refused) Error() string { return string(r) }

// Call is like Do, but an error that the server answers is of type Refused. limit is how long it may take: a
// stopped server does not answer, nor may another program that has the port now.
func (r *Redis) Call(limit time.Duration, args ...string) (answer string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%v: %w", args, err)
		}
	}()
	c, err := net.DialTimeout("tcp", r.Addr, limit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write(request); err != nil {
		return "", err
	}
	in := bufio.NewReader(c)
	kind, _ := in.Peek(1)
	answer, err = readReply(in)
	if err == nil && kind[0] == '-' {
		return "", Refused(answer)
	}
	return answer, err
}

// Commands returns the names of the commands that clients send to the server while f runs, in
// order. It leaves out commands that scripts run, and those with which a client sets up a
// connection, subscribes, or keeps a connection alive.
func (r *Redis) Commands(f func()) (names []string, err error) {
	c, err := net.DialTimeout("tcp", r.Addr, Patience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	if _, err = io.WriteString(c, "MONITOR\r\n"); err == nil {
		_, err = readReply(in)
	}
	if err != nil {
		return nil, fmt.Errorf("MONITOR: %w", err)
	}
	f()
	last := rand.Text()
	if _, err := r.Do("echo", last); err != nil {
		return nil, err
	}
	for {
		_ = c.SetReadDeadline(time.Now().Add(Patience))
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("MONITOR: %w", err)
		}
		// A line looks like: +1339518083.107412 [0 127.0.0.1:60866] "info" "all"
		from, command, _ := strings.Cut(line, "] ")
		words := strings.Fields(strings.ToLower(strings.ReplaceAll(command, `"`, "")))
		switch {
		case strings.Contains(command, last):
			return names, nil
		case len(words) == 0, strings.HasSuffix(from, " lua"):
		case slices.Contains([]string{"hello", "auth", "select", "client", "subscribe", "ping"}, words[0]):
		case words[0] == "script" && len(words) > 1:
			names = append(names, words[0]+" "+words[1])
		default:
			names = append(names, words[0])
		}
	}
}

// readReply reads one answer in RESP2.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	if kind != '$' && kind != '*' {
		return text, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return "", err
	}
	if kind == '$' {
		data := make([]byte, n+2)
		_, err := io.ReadFull(r, data)
		return string(data[:n]), err
	}
	lines := make([]string, n)
	for i := range lines {
		if lines[i], err = readReply(r); err != nil {
			return "", err
		}
	}
	return strings.Join(lines, "\n"), nil
}

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}
