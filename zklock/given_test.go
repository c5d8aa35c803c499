// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// endsSoon is a context that ends after somebody has looked whether it has.
type endsSoon struct {
	context.Context
	looked atomic.Bool
}

func (c *endsSoon) Err() error {
	if c.looked.Swap(true) {
		return context.Canceled
	}
	return nil
}

func (c *endsSoon) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// TestGivenUpBeforeItAsks: a caller that gives up before anything is sent leaves nothing in the session, whose end
// undoes it.
func TestGivenUpBeforeItAsks(t *testing.T) {
	t.Parallel()
	s, err := connect(t.Context(), sharedServer(t).url(), options(suiteTTL))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Listen(func(driver.Event) {})
	at, err := s.leases(t.Context(), purpose{ttl: suiteTTL})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // a select takes either
		req := &driver.Request{Name: t.Name(), Lease: fmt.Sprint("l", i), TTL: suiteTTL, Holder: &driver.Holder{}, Renewed: true}
		ans, err := s.Ask(&endsSoon{Context: t.Context()}, req)
		if err == nil {
			t.Fatal("Ask has an answer")
		}
		if _, err := s.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease, Handle: ans.Handle}, driver.End{Unsure: true, Doubt: true}); err != nil {
			t.Fatal(err)
		}
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if n := len(at.nodes); n > 0 {
		t.Errorf("%d leases are still known", n)
	}
}
