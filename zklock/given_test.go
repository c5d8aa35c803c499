// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestGivenUpBeforeItAsks: a caller that gives up before anything is sent leaves nothing in the session, whose end
// undoes it.
func TestGivenUpBeforeItAsks(t *testing.T) {
	t.Parallel()
	s := openURL(t, sharedServer(t).url(), suiteTTL).wire
	at, err := s.leases(t.Context(), purpose{ttl: suiteTTL, whole: true})
	must(t, err)
	req := request(t.Name(), suiteTTL)
	n := at.nodeFor(req)
	n.busy <- struct{}{} // as another call does that uses the node
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	ans, err := s.Ask(ctx, req)
	if err == nil {
		t.Fatal("Ask has an answer")
	}
	n.free()
	if _, err := s.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease, Handle: ans.Handle}, driver.End{Unsure: true, Doubt: true}); err != nil {
		t.Fatal(err)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if n := len(at.nodes); n > 0 {
		t.Errorf("%d leases are still known", n)
	}
}
