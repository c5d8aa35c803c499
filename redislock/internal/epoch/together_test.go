// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"reflect"
	"testing"
)

// TestAlike: only requests to the same run, with the same record and the same arguments in common, are one call.
func TestAlike(t *testing.T) {
	s := &Server{Config: Config{Scripts: []Script{{PerRequest: 1}}}}
	one, other := new(Binding), new(Binding)
	ask := func(b *Binding, epoch, ttl, lease string) asking {
		return asking{b, []string{epoch, "lock"}, []string{ttl, lease}}
	}
	groups := s.alike(0, []asking{
		ask(one, "epoch", "1", "a"), ask(other, "epoch", "1", "b"), ask(one, "epoch", "1", "c"), ask(one, "another", "1", "d"), ask(one, "epoch", "2", "e"),
	})
	if want := [][]int{{0, 2}, {1}, {3}, {4}}; !reflect.DeepEqual(groups, want) {
		t.Errorf("the calls are %v; want %v", groups, want)
	}
}
