// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestTokens: between those of two revisions there is room for what is set aside, and
// the largest is below 2^63.
func TestTokens(t *testing.T) {
	for _, rev := range []int64{1, 2, 1 << 33, maxRevision - 1} {
		if token, next := tokenOf(rev), tokenOf(rev+1); token+reserved >= next || token>>tokenBits != uint64(rev) {
			t.Errorf("revisions %d and %d: tokens %d and %d", rev, rev+1, token, next)
		}
	}
	if last := tokenOf(maxRevision) + reserved; last != math.MaxInt64 {
		t.Errorf("the last token is %d; want 2^63-1", last)
	}
	if checkRevision(maxRevision, 0) != nil || checkRevision(maxRevision+1, 0) == nil {
		t.Error("the last revision that is a token is refused, or the next is not")
	}
}

// TestRevisionsRunOut: with a revision that is no token nobody gets a lock, nor a place
// in the queue, and the error says what to do.
func TestRevisionsRunOut(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	// The cluster has counted many changes: only the time that it takes to get there is left out.
	through(a, &txns{kvOf(a), func(_ *pb.TxnRequest, send func() (*pb.TxnResponse, error)) (*pb.TxnResponse, error) {
		resp, err := send()
		if err == nil {
			resp.Header.Revision += maxRevision
		}
		return resp, err
	}})
	refused := func(state string) {
		t.Helper()
		for what, acquire := range map[string]func(context.Context, *driver.Request) (*participant.Lease, error){"TryAcquire": a.TryAcquire, "Acquire": a.Acquire} {
			if what == "TryAcquire" && state == "held" {
				continue
			}
			g, err := acquire(t.Context(), request("deploy"))
			if g != nil || err == nil || !strings.Contains(err.Error(), "move the locks to a new cluster") || errors.Is(err, driver.ErrUncertain) {
				t.Fatalf("%s of a name that is %s = %v, %v; want it refused, and what to do", what, state, g, err)
			}
		}
	}
	refused("free")
	if n := keys(t, b, "pawl/lock/"); len(n) != 0 {
		t.Errorf("there are the keys %q; want none", n)
	}
	g := take(t, b, request("deploy"))
	if n, others := g.Reserved(); n != reserved || !others {
		t.Errorf("Reserved = %d, %v; want %d, true", n, others, reserved)
	}
	refused("held")
	if n := keys(t, b, "pawl/lock/"); len(n) != 1 {
		t.Errorf("there are the keys %q; want only the holder's", n)
	}
	release(t, g)
}

// TestRestoredBackup: a client refuses what a cluster grants that has gone back, and leaves
// nothing there.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	restore, err := m.Backup(m.Dir)
	must(t, err)
	s := openStore(t, m.url())
	for range 5 {
		release(t, take(t, s, request("deploy")))
	}
	must(t, restore())
	for _, name := range []string{"deploy", "another"} {
		var g *participant.Lease
		if !eventually(patience, func() bool { // the first requests may meet the end of the connection
			g, err = s.TryAcquire(t.Context(), request(name))
			return !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain)
		}) {
			t.Fatalf("TryAcquire = %v", err)
		}
		if g != nil || err == nil || !strings.Contains(err.Error(), "--bump-revision") {
			t.Errorf("TryAcquire of %q = %v, %v; want what to do after a restore", name, g, err)
		}
	}
	other := openStore(t, m.url())
	if left := keys(t, other, "pawl/lock/"); len(left) > 0 {
		t.Errorf("what was refused is left: %q", left)
	}
	release(t, take(t, other, request("deploy")))
}
