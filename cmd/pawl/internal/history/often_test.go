// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// TestOften: exclusive leases that begin one after the other, lately, and none that was there before
// the first look or is shared.
func TestOften(t *testing.T) {
	h, s := New(0), &Store{Name: "mem:"}
	look := func(second int, shared bool) map[string]int {
		lease := func(id string) pawl.Held { return pawl.Held{Lease: id, Shared: shared} }
		h.Take(s, &Look{At: time.Unix(int64(second), 0), Infos: []*pawl.Info{
			{Name: "leader", Holders: []pawl.Held{lease(fmt.Sprint(second))}},
			{Name: "steady", Holders: []pawl.Held{lease("x")}},
		}})
		return s.Changing()
	}
	for second := range Often {
		if got := look(second, false); len(got) != 0 {
			t.Errorf("after %d s: %v", second, got)
		}
	}
	for second, n := range map[int]int{Often: Often} {
		if got := look(second, false); !maps.Equal(got, map[string]int{"leader": n}) {
			t.Errorf("after %d s: %v", second, got)
		}
	}
	if got := look(Often+20, false); len(got) != 0 || len(s.changes) != 1 {
		t.Errorf("much later: %v, %v", got, s.changes)
	}
	for second := range 2 * Often {
		if got := look(100+second, true); len(got) != 0 {
			t.Errorf("shared: %v", got)
		}
	}
}
