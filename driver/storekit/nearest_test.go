// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"testing"

	"strings"
)

func TestNearest(t *testing.T) {
	names := []string{"break", "bench", "elect", "hold", "ls", "max-ttl", "run", "show", "wait"}
	for word, want := range map[string]string{
		"rnu": "run", "rum": "run", "brake": "break", "brek": "break", "shwo": "show", "maxttl": "max-ttl", "max-tlt": "max-ttl",
		"list": "ls", "unlock": "break", "frobnicate": "", "x": "", "": "", "help": "", strings.Repeat("x", 100): "",
	} {
		if got := Nearest(word, names, map[string]string{"list": "ls", "unlock": "break"}); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
}
