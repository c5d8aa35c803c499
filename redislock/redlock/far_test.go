// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestFarNodesDecide: where a node nearby grants nothing, the votes of nodes far away are needed, and awaited: by a call that does
// not wait, and by one that does.
func TestFarNodesDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		for i, m := range all {
			trip := time.Millisecond
			if i >= 3 {
				trip = 200 * time.Millisecond
			}
			m.set(always(fault{before: trip / 2, after: trip / 2}))
		}
		d := start(t, all, nil)
		release(t, try(t, d))
		time.Sleep(time.Second)
		all[0].mu.Lock()
		all[0].Closed = time.Now().Add(time.Minute) // it has restarted
		all[0].mu.Unlock()
		began := time.Now()
		g, err := d.TryAcquire(t.Context(), request())
		if err != nil {
			t.Errorf("TryAcquire = %v after %v; want a grant, as four of five nodes are well", err, time.Since(began))
		} else {
			release(t, g)
		}
		time.Sleep(time.Second)
		began = time.Now()
		select {
		case g := <-acquire(t.Context(), d, renewing()):
			t.Logf("Acquire took %v", time.Since(began))
			if g == nil {
				t.Error("Acquire has failed")
			} else {
				release(t, g)
			}
		case <-time.After(30 * time.Second):
			t.Error("Acquire has no grant after 30 s")
		}
		time.Sleep(time.Minute)
	})
}
