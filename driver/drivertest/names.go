// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

var nameTests = []Test{
	{Name: "names-of-every-kind", run: namesOfEveryKind},
	{Name: "longest-names-differ-at-their-end", run: longestNames},
	{Name: "names-do-not-disturb-each-other", run: manyNames},
}

// oddNames are names that have broken stores: each with a case or a
// near-collision that a file system, a URL, a path or a pattern would see.
var oddNames = []string{
	"a", "A", "invoice/42", "invoice/42/", "invoice//42", "invoice", "/", "//", "/abs",
	".", "..", "...", "../etc", "./a", "a/..", ".hidden", "-", "--help", "~", "*", "a*", "?", "[a]",
	"{a}", "{a}b", "a{b}", "}{", "%", "%41", "%2F", "a%2fb", "a+b", "a b", "a  b", " a", "a ", "a.", "a.lock",
	"con", "CON", "nul", "nul.txt", "com1", "a:b", "C:", `a\b`, `\`, `"`, "'", "`", "$HOME", "$(a)", ";", "|", "&", "<a>",
	"a\u00a0b", "ä", "a\u0308", "ß", "ẞ", "ss", "İ", "i", "ı", "日本語", "🔒", "👩‍👩‍👧", "\u200b", "\ufeffa", "\ufffd",
	":token", "a:token", "a:queue", "a#1", "a@b", "a=b", "a,b", "0", "00", "-1", "null", "nil", "_", "__", "=",
}

func namesOfEveryKind(e *env) {
	a, b := e.open(), e.open()
	grants := make(map[string]driver.Grant)
	for _, odd := range oddNames {
		// With the prefix of the test and without anything after it, so that odd
		// beginnings are in the middle and odd ends are at the end.
		name := e.name(odd)
		g, err := a.TryAcquire(e.ctx, e.request(name))
		if err != nil {
			e.Errorf("TryAcquire(%q) = %v; want a grant, it is like no other name", odd, err)
			continue
		}
		grants[name] = g
	}
	for _, odd := range oddNames {
		e.held(b, e.name(odd))
	}
	for name, g := range grants {
		e.release(g)
		e.free(b, name)
	}
}

func longestNames(e *env) {
	a, b := e.open(), e.open()
	long := func(unit, end string) string {
		n := driver.MaxName - len(e.prefix) - len(end)
		s := strings.Repeat(unit, n/len(unit))
		return e.name(s + strings.Repeat("-", n-len(s)) + end)
	}
	for _, unit := range []string{"x", "/", ".", "日", "🔒", "Ab"} {
		one, other := long(unit, "1"), long(unit, "2")
		g1, g2 := e.try(a, one), e.try(a, other)
		e.held(b, one)
		e.held(b, other)
		e.release(g1)
		e.free(b, one)
		e.held(b, other)
		e.release(g2)
	}
}

func manyNames(e *env) {
	ds := []driver.Driver{e.open(), e.open()}
	const n = 100
	var grants [n]driver.Grant
	name := func(i int) string { return e.name(fmt.Sprint("customer/", i)) }
	for i := range n {
		grants[i] = e.try(ds[i%2], name(i))
	}
	for i := 0; i < n; i += 2 {
		e.release(grants[i])
	}
	for i := range n {
		if i%2 == 0 {
			e.free(ds[1], name(i))
		} else {
			e.held(ds[0], name(i))
		}
	}
	for i := 1; i < n; i += 2 {
		e.release(grants[i])
	}
}
