// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// keeps reports whether the client may keep the lease of req after its release.
func keeps(req *driver.Request) bool { return req.Keeps && !req.Shared && req.Slots == 0 }

// want is the value that askBack writes into a mark.
type want struct {
	Lease string `json:"lease"`
	Waits bool   `json:"waits,omitempty"`
}

// askBack tells the client of e that another client wants the name, if the client may keep the lease. It puts the
// mark of the lease again, which that client watches. This is a hint: a waiter repeats it with its keepalives, and
// a late hint names a lease that has ended.
func (s *store) askBack(ctx context.Context, e entry, waits bool) {
	if !e.record.Keeps {
		return
	}
	ctx, cancel := s.request(ctx)
	defer cancel()
	_, _ = s.client.Put(ctx, s.mark(e.record.Client, e.named), encode(want{e.record.Lease, waits}), clientv3.WithIgnoreLease())
}
