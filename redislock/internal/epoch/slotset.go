// SPDX-License-Identifier: Apache-2.0

package epoch

import "sync/atomic"

// SlotCount is the number of hash slots of a cluster.
const SlotCount = 16384

// SlotSet is a set of slots. Goroutines can use it at the same time.
type SlotSet struct {
	bits [SlotCount / 32]atomic.Uint32
}

func (s *SlotSet) Has(slot int) bool { return s.bits[slot/32].Load()&(1<<(slot%32)) != 0 }
func (s *SlotSet) Add(slot int)      { s.bits[slot/32].Or(1 << (slot % 32)) }
func (s *SlotSet) Remove(slot int)   { s.bits[slot/32].And(^uint32(1 << (slot % 32))) }

func (s *SlotSet) All() (slots []int) {
	for slot := range SlotCount {
		if s.Has(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}
