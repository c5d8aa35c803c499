// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
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
	if got := tokenOf(maxRevision + 1); got != 0 {
		t.Errorf("a revision that is too large has token %d; want none", got)
	}
}

// aged is the KV of a cluster that has counted so many changes before its first. Only
// the time that it takes to get there is left out.
type aged struct {
	clientv3.KV
	by int64
}

type agedTxn struct {
	clientv3.Txn
	kv *aged
}

func (k *aged) Txn(ctx context.Context) clientv3.Txn { return &agedTxn{k.KV.Txn(ctx), k} }

func (x *agedTxn) If(c ...clientv3.Cmp) clientv3.Txn  { x.Txn = x.Txn.If(c...); return x }
func (x *agedTxn) Then(o ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Then(o...); return x }
func (x *agedTxn) Else(o ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Else(o...); return x }
func (x *agedTxn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := x.Txn.Commit()
	if err == nil {
		resp.Header.Revision += x.kv.by
	}
	return resp, err
}

// TestRevisionsRunOut: with a revision that is no token nobody gets a lock, nor a place
// in the queue, and the error says what to do.
func TestRevisionsRunOut(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	a.client.KV = &aged{a.client.KV, maxRevision}
	refused := func(state string) {
		t.Helper()
		for what, acquire := range map[string]func(context.Context, *driver.Request) (driver.Grant, error){"TryAcquire": a.TryAcquire, "Acquire": a.Acquire} {
			if what == "TryAcquire" && state == "held" {
				continue
			}
			g, err := acquire(t.Context(), request("deploy"))
			if g != nil || err == nil || !strings.Contains(err.Error(), "move the locks to a new cluster") || errors.Is(err, driver.ErrUncertain) {
				t.Errorf("%s of a name that is %s = %v, %v; want it refused, and what to do", what, state, g, err)
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
