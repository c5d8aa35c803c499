// SPDX-License-Identifier: Apache-2.0

package line

// maxHabit bounds what a client forgoes: of names that others always want, it keeps the
// grant once in 2^maxHabit times, to see whether they still do.
const maxHabit = 6

// Habit is what a client has learnt of a name: whether it pays to keep a grant that nobody
// uses. It does not if others want the name before this client does, as everybody then
// pays for a recall. The zero value has learnt nothing.
type Habit struct {
	level int // each step doubles what is forgone
	skip  int // grants that are not kept from now on
}

// Keep reports whether the next grant is to be kept.
func (h *Habit) Keep() bool {
	if h.skip > 0 {
		h.skip--
		return false
	}
	return true
}

// Recalled notes that others wanted the name before a grant that was to be kept was used
// again.
func (h *Habit) Recalled() {
	h.level = min(h.level+1, maxHabit)
	h.skip = 1<<h.level - 1
}

// Reused notes that a grant that was kept was used again. One such grant does not yet
// undo what others have taught.
func (h *Habit) Reused() { h.level = max(0, h.level-1) }

// None reports whether there is nothing to remember.
func (h *Habit) None() bool { return h.level == 0 && h.skip == 0 }
