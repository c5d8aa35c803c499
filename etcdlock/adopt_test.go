// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawl-go/pawl/driver"
)

// TestRenewalByIDBesideExtend: the key is bound to another etcd lease while somebody who knows the id of the lease keeps
// the one before alive. That is no renewal.
func TestRenewalByIDBesideExtend(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	req := request("deploy")
	g := take(t, a, req)
	extend := sync.OnceFunc(func() {
		if _, err := g.Renew(t.Context(), 2*time.Minute); err != nil {
			t.Error(err)
		}
	})
	through(b, &txns{kvOf(b), func(_ *pb.TxnRequest, send func() (*pb.TxnResponse, error)) (*pb.TxnResponse, error) {
		extend()
		return send()
	}})
	byID := driver.Ref{Name: req.Name, Lease: req.Lease}
	if r, err := b.Renew(t.Context(), byID, time.Minute); err == nil || errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %+v, %v; want that it is not proven", r, err)
	}
	if _, err := b.Renew(t.Context(), byID, time.Minute); err != nil {
		t.Errorf("the next Renew = %v", err)
	}
	release(t, g)
}
