// SPDX-License-Identifier: Apache-2.0

package show

import (
	"testing"

	"strings"
)

// TestDrawn: what does not fit is counted.
func TestDrawn(t *testing.T) {
	const list = "NAME\na\nb\nc\nd\n"
	for rows, want := range map[int]string{
		24: "note|NAME|a|b|c|d|",
		7:  "note|NAME|a|b|c|d|",
		6:  "note|NAME|a|b|… and 2 more|",
		2:  "note|… and 5 more|",
	} {
		got := drawn([]string{"note"}, list, 80, rows)
		got = strings.TrimSuffix(strings.TrimPrefix(got, home), clearBelow)
		if got = strings.ReplaceAll(got, clearLine+"\n", "|"); got != want {
			t.Errorf("%d rows: %s, want %s", rows, got, want)
		}
	}
	if got := drawn([]string{strings.Repeat("x", 100)}, list, 80, 7); !strings.Contains(got, "… and") {
		t.Errorf("a note takes two rows: %q", got)
	}
	if got := drawn([]string{"note"}, "", 80, 8); got != home+"note"+clearLine+"\n"+clearBelow {
		t.Errorf("without locks: %q", got)
	}
}
