// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// watches returns how many watches the server has.
func (m *member) watches() float64 { return m.metric("etcd_debugging_mvcc_watcher_total") }

// TestKeepIdleEndsWatches: no watch and no key is left of what was kept.
func TestKeepIdleEndsWatches(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	for i := range 20 {
		req := keepRequest(fmt.Sprint(i))
		e := keep(t, a, req)
		switch i % 4 {
		case 0:
			refusedBy(t, b, req.Name)
			e.hears(t)
			release(t, e)
		case 1:
			release(t, e) // at once
			e.OnWanted(func() {})
		case 2:
			if err := b.Break(t.Context(), req.Name, req.Lease, nil, "test"); err != nil {
				t.Error(err)
			}
			if _, err := e.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
				t.Errorf("Renew = %v", err)
			}
		case 3: // until Close
		}
	}
	for i := range 50 { // most of them before the watch is there
		release(t, keep(t, a, keepRequest(fmt.Sprint("brief ", i))))
	}
	if !eventually(patience, func() bool { return m.watches() == 6 }) {
		t.Errorf("%v watches; want 5, and that of the marks", m.watches())
	}
	a.Close() // waits for those who watch
	if !eventually(patience, func() bool { return m.watches() == 0 }) {
		t.Errorf("%v watches are left", m.watches())
	}
}
