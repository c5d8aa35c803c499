// SPDX-License-Identifier: Apache-2.0

package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

func TestLsOrder(t *testing.T) {
	held := func(name string, since time.Duration, waiters int) *pawl.Info {
		return &pawl.Info{Name: name, Holders: []pawl.Held{{Acquired: time.Now().Add(-since)}}, Waiters: make([]pawl.Waiter, waiters)}
	}
	for order, want := range map[string]string{"name": "a b c d", "age": "b a d c", "waiting": "c a b d"} {
		infos := []*pawl.Info{held("a", time.Minute, 1), held("b", time.Hour, 1), {Name: "c", Waiters: make([]pawl.Waiter, 2)}, held("d", time.Second, 0)}
		slices.SortStableFunc(infos, lsOrders[order])
		var names []string
		for _, i := range infos {
			names = append(names, i.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
	}
}
