// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// A client refuses a grant whose token is not above one that it has had on the name.
func TestStoreThatHasGoneBackIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tap(new(memlock.Store))
		c := open(t, d, nil)
		for range 3 {
			release(t, acquire(t, c, "a"))
		}
		old := new(memlock.Store)
		d.Store = old.Participant() // an older state
		ways := map[string]func() (*pawl.Lease, error){
			"Acquire":    func() (*pawl.Lease, error) { return c.Acquire(t.Context(), "a") },
			"TryAcquire": func() (*pawl.Lease, error) { return c.TryAcquire(t.Context(), "a") },
		}
		for name, ask := range ways {
			l, err := ask()
			if err == nil || errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "restore") {
				t.Errorf("%s = %v, %v; want that the store has gone back", name, l, err)
			}
			synctest.Wait()
		}
		wantFree(t, open(t, old.Participant(), nil), "a")
		release(t, acquire(t, c, "b")) // of which nothing is known
	})
}
