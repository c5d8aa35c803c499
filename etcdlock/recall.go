// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// keeps reports whether the client of a request may keep its lease when nobody uses it.
func keeps(req *driver.Request) bool { return req.Keeps && !req.Shared && req.Slots == 0 }

// want is the value that askBack gives a mark.
type want struct {
	Lease string `json:"lease"`
	Waits bool   `json:"waits,omitempty"`
}

// askBack tells the client of e that another client wants the name, if that client may keep the lease. It puts the mark
// of the lease again, which the client watches. It is a hint, and a waiter repeats it with its keepalives. A late one
// names a lease that has ended.
func (s *store) askBack(ctx context.Context, e entry, waits bool) {
	if !e.record.Keeps {
		return
	}
	ctx, cancel := s.request(ctx)
	defer cancel()
	_, _ = s.client.Put(ctx, s.mark(e.record.Client, e.named), encode(want{e.record.Lease, waits}), clientv3.WithIgnoreLease())
}
