// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"slices"
	"testing"
)

// TestOutbox: all is told, once and in order, also what came before anybody heard, unless it
// was dropped.
func TestOutbox(t *testing.T) {
	var o Outbox[int]
	var got []int
	o.Put(1)
	o.Put(4)
	o.Drop(func(v int) bool { return v > 3 })
	o.Put(2)
	o.To(func(v int) { got = append(got, v) })
	o.Put(3)
	if want := []int{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("told %d; want %d", got, want)
	}
}
