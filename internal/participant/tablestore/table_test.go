// SPDX-License-Identifier: Apache-2.0

package tablestore

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// delayed is a store that keeps the row that it would have read last before it ended a lease.
type delayed struct {
	*store
	seen row
}

func (d *delayed) End(ctx context.Context, l driver.Ref, how driver.End) (bool, error) {
	d.seen, _, _ = d.table.get(context.WithoutCancel(ctx), l.Name)
	return d.store.End(ctx, l, how)
}

// late carries out the set of r, which was decided before the End.
func late(t testing.TB, s driver.Store, r *driver.Request) {
	d := s.(*delayed)
	d.seen.holder, d.seen.ends = driver.Held{Holder: *r.Holder, Lease: r.Lease}, driver.Now().Add(r.TTL)
	if _, err := d.table.set(t.Context(), r.Name, d.seen); err != nil {
		t.Error(err)
	}
}

func TestWire(t *testing.T) {
	wiretest.Run(t, wiretest.Harness{
		Bubble: synctest.Test,
		Start: func(testing.TB) wiretest.Service {
			table := new(Table)
			return wiretest.Service{Late: late, Open: func(testing.TB) driver.Store { return &delayed{store: &store{table: table}} }}
		},
	})
}
