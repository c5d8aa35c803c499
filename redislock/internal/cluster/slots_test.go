// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// TestSlots compares with what CLUSTER KEYSLOT says.
func TestSlots(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "pawl:{foo}:queue": 12182, "a{}{foo}": slotOf("a{}{foo}"),
		"{}foo": int(crc16("{}foo")) % epoch.SlotCount, "{foo": int(crc16("{foo")) % epoch.SlotCount, "a{b{c}d}": slotOf("b{c"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("slotOf(%q) = %d; want %d", key, got, want)
		}
	}
}

func TestSlotTags(t *testing.T) {
	for slot := range epoch.SlotCount {
		if got := slotOf("pawl:epoch:{" + slotTag(slot) + "}"); got != slot {
			t.Fatalf("the tag %s of slot %d is in slot %d", slotTag(slot), slot, got)
		}
	}
}
