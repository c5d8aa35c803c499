// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

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
