// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-go/pawl/driver"
)

// TestFullServer: etcd answers that its space is used up, and has carried out the
// transaction all the same, if that was the one that used it up. An attempt that
// has put its key does not end as one that has recorded nothing.
func TestFullServer(t *testing.T) {
	t.Parallel()
	for range 40 { // one mostly does, unless other tests keep the server from time
		if fill(t) > 0 {
			return
		}
	}
	t.Error("no attempt that was refused had put its key: this shows nothing")
}

// fill fills a server with leases, and returns how many of the attempts that were
// refused had put their keys.
func fill(t *testing.T) int32 {
	s := openStore(t, startServer(t, "--quota-backend-bytes", "8000000").url())
	var all sync.WaitGroup
	var there atomic.Int32
	for i := range 32 {
		all.Go(func() {
			for j := 0; ; j++ {
				req := request(fmt.Sprintf("deploy/%d/%d", i, j))
				req.Why = strings.Repeat("x", 60000)
				ans, err := s.Ask(t.Context(), req)
				if err == nil {
					continue
				}
				f := driver.FailureOf(err)
				if len(keysOf(t, s, req)) == 1 {
					there.Add(1)
					if !f.Maybe {
						t.Errorf("Ask = %v; want that the outcome is open: the key is there", err)
					}
				}
				if f.Maybe {
					undo(t, s, req, ans)
				}
				if n := len(keysOf(t, s, req)); n > 0 {
					t.Errorf("%d keys are left of an attempt that was undone", n)
				}
				return
			}
		})
	}
	all.Wait()
	return there.Load()
}

// TestFullServerKeepsLeases: a server without space refuses every write, and keeps alive
// what is there, also for a holder that had to wait.
func TestFullServerKeepsLeases(t *testing.T) {
	t.Parallel()
	m := startServer(t, "--quota-backend-bytes", "4000000")
	a, b := openStore(t, m.url()), openStore(t, m.url())
	held := take(t, a, request("deploy"))
	w := wait(t, b, request("deploy"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	for i := 0; err == nil; i++ {
		_, err = a.client.Put(ctx, fmt.Sprint("ballast", i), strings.Repeat("x", 500000))
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("Put = %v; want that there is no space", err)
	}
	release(t, held)
	next := w.granted(patience)
	for range 2 { // the first one also tries to write the time of the grant
		if _, err := next.Renew(t.Context(), time.Minute); err != nil {
			t.Errorf("Renew of the waiter's lease = %v", err)
		}
	}
	release(t, next)
}
