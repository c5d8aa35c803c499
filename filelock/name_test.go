// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func TestEncode(t *testing.T) {
	for name, want := range map[string]string{
		"deploy":      "deploy",
		"invoice/42":  "invoice%2f42",
		"Deploy":      "%44eploy",
		".hidden":     "%2ehidden",
		"..":          "%2e.",
		"--help":      "%2d-help",
		"a-b_c.d":     "a-b_c.d",
		"con":         "%63on",
		"nul.txt":     "%6eul.txt",
		"com1":        "%63om1",
		"com10":       "com10",
		"console":     "console",
		"%41":         "%2541",
		"ä":           "%c3%a4",
		"日":           "%e6%97%a5",
		"a.lock":      "a.lock",
		"two words":   "two%20words",
		`C:\x`:        `%43%3a%5cx`,
		"%h" + "beef": "%25hbeef",
	} {
		got := encode(name)
		if got != want {
			t.Errorf("encode(%q) = %q; want %q", name, got, want)
		}
		if back, ok := decode(got); !ok || back != name {
			t.Errorf("decode(%q) = %q, %v; want %q", got, back, ok, name)
		}
	}
}

// FuzzEncode: whatever the names are, their files are different ones also where
// upper and lower case are the same, and decode gives the name back.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"a", "A", "invoice/42", "con", "CON.txt", "%h", "é", "..", strings.Repeat("x", 300)} {
		f.Add(s, strings.ToUpper(s))
		f.Add(s, s+"%20")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if driver.CheckName(a) != nil || driver.CheckName(b) != nil {
			t.Skip()
		}
		ea, eb := encode(a), encode(b)
		if (a == b) != strings.EqualFold(ea, eb) {
			t.Errorf("%q and %q have the files %q and %q", a, b, ea, eb)
		}
		if len(ea) > maxEncoded || strings.Trim(ea, "abcdefghijklmnopqrstuvwxyz0123456789-_.%") != "" || ea[0] == '.' {
			t.Errorf("encode(%q) = %q is no good file name", a, ea)
		}
		if back, ok := decode(ea); back != a && !(strings.Contains(ea, hashMark) && !ok) {
			t.Errorf("decode(%q) = %q, %v; want %q", ea, back, ok, a)
		}
	})
}
