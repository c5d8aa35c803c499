// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// maxCommand is how much of a command line others are shown.
const maxCommand = 200

// commandLine returns words as one would type them to a shell, shortened.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	return shorten(strings.ToValidUTF8(strings.Join(quoted, " "), "\uFFFD"), maxCommand)
}

func shellQuote(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:=@%+,^", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shorten cuts valid UTF-8 to at most n bytes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const dots = "…"
	end := n - len(dots)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}

// printable replaces what could control the terminal: much of what is printed
// was written by other users.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) && r != ' ' {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// heldBy describes a holder: held by alice@ci-7 (pid 812, "make") for 3m12s, token 41.
func heldBy(info *pawl.Info) string {
	if info == nil || len(info.Holders) == 0 {
		return "held by somebody else"
	}
	return (&pawl.HeldError{Info: info}).Error()
}

// kindText describes the kind of a lease, or returns "" if it is exclusive.
func kindText(shared bool, slots int) string {
	switch {
	case shared:
		return "shared"
	case slots > 0:
		return fmt.Sprintf("one of %d slots", slots)
	}
	return ""
}

// age formats the time since t, or "-" if it is not known.
func age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return driver.Ago(t)
}
