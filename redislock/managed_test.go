// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestWithoutManagement: a service that keeps its users from all that manages a server is enough, and
// so is one that speaks RESP2 only. docs/managed-redis.md says what services forbid.
func TestWithoutManagement(t *testing.T) {
	t.Parallel()
	const management = "CONFIG CLIENT COMMAND CLUSTER FUNCTION WAIT ROLE EVAL ACL DEBUG MONITOR SHUTDOWN KEYS SAVE BGSAVE REPLICAOF LATENCY MEMORY MODULE SLOWLOG FLUSHALL"
	for _, commands := range []string{management, "HELLO CONFIG"} {
		var forbidden []string
		for _, c := range strings.Fields(commands) {
			forbidden = append(forbidden, "--rename-command", c, "")
		}
		url := servers.StoreURL(startServer(t, forbidden...).Redis)
		var clients [2]*pawl.Client
		for i := range clients {
			c, err := Open(t.Context(), url, &Options{MaxTTL: time.Minute}) // to which clientsWork extends
			if err != nil {
				t.Fatalf("without %s: %v", commands, err)
			}
			defer c.Close()
			clients[i] = c
		}
		clientsWork(t, clients[0], clients[1])
	}
}

// TestNoScriptAtRandom: a server that forgets scripts at any time, as a proxy before several may seem
// to do, costs time and errors, which say so, and no two ever hold a lock. With Efficiency
// it costs the sending of the script.
func TestNoScriptAtRandom(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Correctness, Efficiency} {
		r := startServer(t)
		f := &forgetful{t: t, to: r.Addr, forgets: func([][]byte) bool { return rand.IntN(5) == 0 }}
		url := "redis://" + f.listen()
		opts := &Options{Mode: mode, AssumeNew: mode == Correctness}
		var holders, errs atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				c := insist(t, &errs, func() (*pawl.Client, error) { return Open(t.Context(), url, opts) })
				defer c.Close()
				for range 25 {
					lease := insist(t, &errs, func() (*pawl.Lease, error) { return c.Acquire(t.Context(), "deploy") })
					if n := holders.Add(1); n != 1 {
						t.Errorf("%s: %d holders", mode, n)
					}
					holders.Add(-1)
					_ = lease.Release(t.Context()) // the client repeats it
				}
			})
		}
		all.Wait()
		if n := f.forgot.Load(); n < 5 || mode == Efficiency && errs.Load() > 0 {
			t.Errorf("%s: %d calls found no script, %d errors", mode, n, errs.Load())
		}
	}
}

// TestNoScriptForGrants: a client that finds its scripts each time it binds, but not when it calls
// them, says so at once and in its pauses.
func TestNoScriptForGrants(t *testing.T) {
	t.Parallel()
	f := &forgetful{t: t, to: startServer(t).Addr, forgets: func(call [][]byte) bool {
		return slices.ContainsFunc(call, func(arg []byte) bool { return bytes.Contains(arg, []byte("deploy")) })
	}}
	c := openClient(t, "redis://"+f.listen(), &Options{AssumeNew: true})
	told := 0
	for range 8 {
		switch _, err := c.TryAcquire(t.Context(), "deploy"); {
		case errors.Is(err, net.ErrClosed): // the client drops a connection that is of no use
		case !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "scripts"):
			t.Errorf("TryAcquire = %v; want ErrUnavailable, because of forgotten scripts", err)
		default:
			told++
		}
	}
	if told < 2 {
		t.Errorf("%d errors speak of scripts; want one of a call and one of a pause", told)
	}
}

// insist asks again after errors that say that scripts are forgotten.
func insist[T any](t *testing.T, errs *atomic.Int64, ask func() (T, error)) T {
	for {
		v, err := ask()
		if err == nil || t.Context().Err() != nil {
			return v
		}
		errs.Add(1)
		if !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, pawl.ErrUncertain) || !strings.Contains(err.Error(), "scripts") {
			t.Errorf("%v; want ErrUnavailable, because of forgotten scripts", err)
		}
	}
}

// forgetful is a proxy before a server that has forgotten the scripts of some calls: the proxy asks
// for another one in their place.
type forgetful struct {
	t       testing.TB
	to      string
	forgets func(call [][]byte) bool
	forgot  atomic.Int64
}

func (f *forgetful) listen() (addr string) {
	return proxy(f.t, func(client net.Conn) {
		server, err := net.Dial("tcp", f.to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() { io.Copy(client, server); client.Close() }()
		for from := bufio.NewReader(client); ; {
			args, err := readCommand(from)
			if err != nil {
				return
			}
			if f.forgets(args) && strings.EqualFold(string(args[0]), "evalsha") {
				f.forgot.Add(1)
				args[1] = bytes.Repeat([]byte("0"), len(args[1]))
			}
			if err := writeCommand(server, args); err != nil {
				return
			}
		}
	})
}

// proxy listens, and calls serve for each connection, which it closes afterwards.
func proxy(t testing.TB, serve func(client net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer client.Close(); serve(client) }()
		}
	}()
	return l.Addr().String()
}

func writeCommand(w io.Writer, args [][]byte) error {
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := w.Write(out)
	return err
}

// readCommand reads an array of strings.
func readCommand(r *bufio.Reader) ([][]byte, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([][]byte, n)
	for i := range args {
		length, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		whole := make([]byte, length+2) // and CR LF
		if _, err := io.ReadFull(r, whole); err != nil {
			return nil, err
		}
		args[i] = whole[:length]
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || line[0] != kind {
		return 0, fmt.Errorf("%q is no %c: %w", line, kind, io.ErrUnexpectedEOF)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
