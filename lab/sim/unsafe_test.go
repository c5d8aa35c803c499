// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"sync"
	"testing"
)

// TestShrink finds what the quarantine of nodes is good for, and cuts it down to a
// story.
func TestShrink(t *testing.T) {
	draw := func(seed uint64) Plan {
		p := Draw(seed)
		p.Off.Quarantine = true
		return p
	}
	var mu sync.Mutex
	var found *History
	search(t, 10000, draw, func(h *History) bool {
		if h.breaks(TwoHolders) {
			mu.Lock()
			defer mu.Unlock()
			found = h
		}
		return h.breaks(TwoHolders)
	})
	if found == nil {
		t.Fatal("10,000 schedules without quarantine, and never two holders")
	}
	small := Shrink(bubble(t), found.Plan, TwoHolders)
	h := Run(bubble(t), small)
	t.Logf("seed %d: %d faults, then %d; %d events, then %d", small.Seed, len(found.Plan.Faults), len(small.Faults), len(found.Events), len(h.Events))
	var text strings.Builder
	if err := NewView(h).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if len(small.Faults) == 0 || len(h.Events) > len(found.Events) || !strings.Contains(text.String(), "Now two clients believe") {
		t.Error("the story does not tell how two clients came to hold the lock")
	}
	for _, p := range cuts(h) {
		if Run(bubble(t), p).breaks(TwoHolders) {
			t.Errorf("it can be cut down further, to %v", p.Faults)
		}
	}
}
