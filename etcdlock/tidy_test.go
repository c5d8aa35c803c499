// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestStrays: a key that no lease owns, bound to an etcd lease that the participant keeps
// alive, would keep everybody out for as long as that lives.
func TestStrays(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	held, spare := take(t, a, request("held")), take(t, a, request("spare"))
	w := wait(t, a, request("held"))
	release(t, spare)
	for name, id := range map[string]clientv3.LeaseID{"one": held.backing.id, "two": spare.backing.id} {
		key := a.layout.place(name).key(request(name), id)
		if _, err := a.client.Put(t.Context(), key, "{}", clientv3.WithLease(id)); err != nil {
			t.Fatal(err)
		}
	}
	a.doubt()
	if !eventually(patience, func() bool { return len(keys(t, b, "pawl/lock/one/")) == 0 && len(keys(t, b, "pawl/lock/two/")) == 0 }) {
		t.Fatal("keys are left that nobody owns")
	}
	if _, err := held.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("a lease that is held: %v", err)
	}
	next := take(t, a, request("next"))
	if next.backing.id == spare.backing.id {
		t.Error("an etcd lease is used again to which something was bound that nobody knew of")
	}
	release(t, next)
	release(t, held)
	release(t, w.granted(patience))
	if len(a.backed) > 0 {
		t.Errorf("it takes these for its own: %v", a.backed)
	}
	nothingLeft(t, b)
}
