// SPDX-License-Identifier: Apache-2.0

package line_test

import (
	"testing"

	"github.com/pawl-go/pawl/internal/line"
)

// turns lets a client be granted a name n times. After each grant that is kept, others want
// the name before it is used again, unless reused says that it was used.
func turns(h *line.Habit, n int, reused func(i int) bool) (kept, recalled int) {
	for i := range n {
		if !h.Keep() {
			continue
		}
		kept++
		if reused(i) {
			h.Reused()
		} else {
			recalled++
			h.Recalled()
		}
	}
	return kept, recalled
}

func TestHabit(t *testing.T) {
	var h line.Habit
	never, always := func(int) bool { return false }, func(int) bool { return true }
	if kept, _ := turns(&h, 100, always); kept != 100 || !h.None() {
		t.Errorf("%d of 100 grants are kept that are used again, none: %v", kept, h.None())
	}
	turns(&h, 10, never)
	if _, recalled := turns(&h, 1000, never); recalled < 1000/64 || recalled > 1000/20 {
		t.Errorf("in strict turns %d of 1,000 grants are recalled", recalled)
	}
	for range 64 {
		if kept, _ := turns(&h, 1, always); kept > 0 {
			break
		}
	}
	if h.None() {
		t.Error("one grant that was used again undoes all that was learnt")
	}
	turns(&h, 64, always)
	if kept, _ := turns(&h, 100, always); kept != 100 || !h.None() {
		t.Errorf("%d of 100 grants are kept when others have gone, none: %v", kept, h.None())
	}
	if _, recalled := turns(&h, 1000, func(i int) bool { return i%2 == 0 }); recalled > 500/2 {
		t.Errorf("%d of 1,000 grants are recalled where every second is used again", recalled)
	}
}
