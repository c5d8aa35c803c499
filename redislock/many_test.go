// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestAnswersOfMany: each of the requests in one call gets its own answer.
func TestAnswersOfMany(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	s, other := openLong(t, r), openLong(t, r)
	const n = 48
	for i := 0; i < n; i += 3 {
		take(t, other, long(fmt.Sprint(i)))
	}
	if !eventually(patience, func() bool {
		before := scriptCalls(r)
		grants, requests := make([]*participant.Lease, n), make([]*driver.Request, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				requests[i] = long(fmt.Sprint(i))
				g, err := s.TryAcquire(t.Context(), requests[i])
				var held *driver.HeldError
				if i%3 == 0 {
					if !errors.As(err, &held) || len(held.Info.Holders) != 1 {
						t.Errorf("TryAcquire of what is held = %v; want its holder", err)
					}
				} else if err != nil {
					t.Errorf("TryAcquire = %v", err)
				} else {
					grants[i] = g
				}
			})
		}
		all.Wait()
		together := scriptCalls(r)-before < n
		for i, g := range grants {
			if g == nil {
				continue
			}
			lease := requests[i].Lease
			if holds := r.do("get", lockKey(defaultPrefix, fmt.Sprint(i))); !strings.HasPrefix(holds, fmt.Sprint(lease, " ", s.id, " ", g.Token(), " ")) {
				t.Errorf("the lock %d is %q; the answer was token %d for %s", i, holds, g.Token(), lease)
			}
			release(t, g)
		}
		return together || t.Failed()
	}) {
		t.Error("the requests of goroutines were never a call")
	}
}

// TestAllOfManyLeave: a call for which no request waits any more is given up, although
// the server does not answer. The test is not parallel, as it would see the calls of
// others.
func TestAllOfManyLeave(t *testing.T) {
	r := blessedServer(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{r.Addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1, ConnWriteTimeout: time.Hour, // it does not give up
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := NewStoreFor(client, longOptions())
	if err != nil {
		t.Fatal(err)
	}
	s := asParty(d)
	defer s.Close()
	take(t, s, long("warm"))
	calls := func() int {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("batch.(*batch).send("))
	}
	for tries, seen := 0, 0; seen == 0; tries++ {
		if tries == 100 {
			t.Fatal("the requests of goroutines were never a call")
		}
		r.stop()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				s.TryAcquire(ctx, long(fmt.Sprint(i))) // what may be left ends with the server
			})
		}
		eventually(time.Second, func() bool { seen = calls(); return seen > 0 })
		cancel()
		all.Wait()
		if !eventually(patience, func() bool { return calls() == 0 }) {
			t.Errorf("%d calls for which nobody waits are under way", calls())
		}
		r.cont()
	}
}
