// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func TestFront(t *testing.T) {
	kinds := map[rune]Sharing{'w': {}, 'r': {Shared: true}, '2': {Slots: 2}, '3': {Slots: 3}}
	for queue, want := range map[string]int{
		"": 0, "w": 1, "ww": 1, "rrr": 3, "rrw": 2, "rrwrr": 2, "wrrr": 1, "22": 2, "222": 2, "3333": 3, "23": 1, "2w2": 1, "r2": 1, "2r": 1,
	} {
		if n := Front([]rune(queue), func(r rune) Sharing { return kinds[r] }); n != want {
			t.Errorf("%s: %d leases hold the name; want %d", queue, n, want)
		}
	}
	var slots *driver.SlotsError
	if err := kinds['2'].Agrees(kinds['3']); !errors.As(err, &slots) || slots.Held != 3 || slots.Wanted != 2 {
		t.Errorf("one of 2 slots beside 3 slots: %v", err)
	}
	for _, held := range []rune{'w', 'r', '2'} {
		if err := kinds['2'].Agrees(kinds[held]); err != nil {
			t.Errorf("one of 2 slots beside %c: %v; want it to wait", held, err)
		}
	}
}
