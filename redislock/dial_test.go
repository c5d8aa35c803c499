// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestDialNothing: a dialer that returns nil and no error is an error, and does not end the process.
func TestDialNothing(t *testing.T) {
	t.Parallel()
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	for _, url := range []string{"redis://127.0.0.1:1", "redis://127.0.0.1:1?master_set=m", "redis://127.0.0.1:1?addr=127.0.0.1:2"} {
		opts := &Options{Dial: dial}
		opts.ConnectTimeout = time.Second
		_, err := NewStore(t.Context(), url, opts)
		fails(t, "NewStore("+url+")", err, driver.ErrUnavailable, "Dial has returned neither")
	}
}

// TestNoAnswerToTheFirstRequest: a server that accepts a connection and does not answer is dialled once, so that Open takes
// one ConnectTimeout.
func TestNoAnswerToTheFirstRequest(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	opts := &Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		return near, nil
	}}
	opts.ConnectTimeout = 200 * time.Millisecond
	_, err := NewStore(t.Context(), "redis://127.0.0.1:1", opts)
	fails(t, "NewStore", err, driver.ErrUnavailable, "does not answer")
	if n := dials.Load(); n != 1 {
		t.Errorf("it dials %d times; want once", n)
	}
}

// TestOptionsAreCopied: a client that connects later does so with the options that Open was called with.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	opts := &Options{}
	locks := openClient(t, "redis://127.0.0.1:1", opts)
	opts.Prefix = "a{b\n" // which is refused
	fails(t, "Ping", locks.Ping(t.Context()), driver.ErrUnavailable)
}
