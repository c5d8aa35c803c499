// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestPeekBesideARead: pgx reads in the background when a write takes more than 15 ms, as on a busy
// machine, and goes on when the answer has come. To look at the connection does not wait for that.
func TestPeekBesideARead(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	here, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	defer here.Close()
	there, err := l.Accept()
	must(t, err)
	defer there.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.ReadFull(here, make([]byte, 2))
	}()
	there.Write([]byte("x")) // the first half: the read has begun when it is gone
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if !eventually(patience, func() bool { something, ok := peek(here); return ok && !something }) {
			t.Error("the read does not begin, or the connection cannot be looked at")
		}
	}()
	select {
	case <-looked:
	case <-time.After(2 * patience):
		t.Error("peek waits for a read")
	}
	there.Close()
	<-read
}
