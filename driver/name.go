// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name, in bytes.
const MaxName = 1024

// CheckName returns nil if name is valid UTF-8 of 1 to MaxName bytes without
// control characters. Otherwise the error says what to type instead.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New(`name is empty: give the lock a name, such as "deploy"`)
	case len(name) > MaxName:
		return fmt.Errorf("name %q has %d bytes: use at most %d, such as a hash of the long part",
			Shorten(name), len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("name %q is not valid UTF-8: encode binary names, as hexadecimal for one", Shorten(name))
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("name %q contains the control character %U: use printable characters", Shorten(name), r)
		}
	}
	return nil
}

// Shorten cuts a long name for an error's text.
func Shorten(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "…"
}

// Ago formats the time since t for people: "3m12s", never negative.
func Ago(t time.Time) string {
	d := max(time.Since(t), 0)
	if d >= time.Second {
		d = d.Truncate(time.Second)
	} else {
		d = d.Truncate(time.Millisecond)
	}
	return d.String()
}

// ForPeople rounds d to what people want to read: to seconds from 10 s on, and to
// milliseconds below that.
func ForPeople(d time.Duration) time.Duration {
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
