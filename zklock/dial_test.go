// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestDial: the dialer of the program makes all connections, to names that only it knows.
func TestDial(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var dialled atomic.Int64
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "zk.example:2181" {
			return nil, errors.New("not the address of the program: " + addr)
		}
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, s.Addr)
	}
	locks, err := Open(t.Context(), "zk://zk.example", &Options{Dial: dial})
	must(t, err)
	defer locks.Close()
	lease, err := locks.Acquire(t.Context(), "deploy")
	must(t, err)
	before := dialled.Load()
	s.restart(t)
	drivertest.Until(t, "the connection after a restart is not the dialer's", func() bool { return dialled.Load() > before })
	if err := lease.Err(); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), "zks://zk.example", &Options{Dial: dial}); err == nil || !strings.Contains(err.Error(), "zk://") {
		t.Errorf("with TLS of ours: %v; want an error", err)
	}
	if _, err := NewStore(t.Context(), "zk://another.example", &Options{Dial: dial, ConnectTimeout: time.Second}); err == nil || !strings.Contains(err.Error(), "not the address of the program") {
		t.Errorf("Open = %v; want the dialer's error", err)
	}
}

// TestDialNothing: a dialer that returns nil and no error is an error, and does not end the process.
func TestDialNothing(t *testing.T) {
	t.Parallel()
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	locks, err := Open(t.Context(), "zk://127.0.0.1:1", &Options{Dial: dial, ConnectTimeout: time.Second})
	must(t, err)
	defer locks.Close()
	if err := locks.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "Dial has returned neither") {
		t.Errorf("Ping = %v; want ErrUnavailable, and that the function Dial returns nothing", err)
	}
}

// TestClosedByTheServer: a connection beyond maxClientCnxns is closed, which shows in one of three ways.
func TestClosedByTheServer(t *testing.T) {
	for _, err := range []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE} {
		if got := dialHint(&net.OpError{Op: "write", Err: err}).Error(); !strings.Contains(got, "maxClientCnxns") {
			t.Errorf("%v: %s; want maxClientCnxns", err, got)
		}
	}
}

// TestOptionsAreCopied: a client that connects later does so with the options that Open was called with.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	opts := &Options{}
	locks, err := Open(t.Context(), "zk://127.0.0.1:1", opts)
	must(t, err)
	defer locks.Close()
	opts.Root = "a{b\n" // which is refused
	if err := locks.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("Ping = %v; want ErrUnavailable, as the options were right when Open was called", err)
	}
}

// TestOldServers: what to do about servers that have no container nodes.
func TestOldServers(t *testing.T) {
	if err := explain(errors.New(otherAnswer + "-6")); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "3.5.3") {
		t.Errorf("an unknown kind of request: %v; want the version that it takes", err)
	}
}
