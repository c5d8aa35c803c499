// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// Term is an S-expression: an atom, or a list of terms.
type Term struct {
	atom string
	list []Term
}

func atom(s string) Term            { return Term{atom: s} }
func list(ts ...Term) Term          { return Term{list: ts} }
func call(f string, t ...Term) Term { return Term{list: append([]Term{atom(f)}, t...)} }

func (t Term) isAtom() bool { return t.list == nil }

// head returns the name with which a list begins, or "".
func (t Term) head() string {
	if len(t.list) == 0 {
		return ""
	}
	return t.list[0].atom
}

func (t Term) String() string {
	if t.isAtom() {
		return t.atom
	}
	var s []string
	for _, x := range t.list {
		s = append(s, x.String())
	}
	return "(" + strings.Join(s, " ") + ")"
}

// all returns the conjunction of terms.
func all(ts []Term) Term {
	switch len(ts) {
	case 0:
		return atom("true")
	case 1:
		return ts[0]
	}
	return call("and", ts...)
}

// rename returns t with each atom replaced that names has. names must not have a name that is
// bound in t.
func (t Term) rename(names map[string]Term) Term {
	if t.isAtom() {
		if n, ok := names[t.atom]; ok {
			return n
		}
		return t
	}
	r := Term{list: make([]Term, len(t.list))}
	for i, x := range t.list {
		r.list[i] = x.rename(names)
	}
	return r
}

// parse parses all terms of a text. A comment begins with ; and ends with the line.
func parse(text string) ([]Term, error) {
	var open [][]Term
	terms := []Term{}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, ";")
		line = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(line)
		for _, word := range strings.Fields(line) {
			switch word {
			case "(":
				open = append(open, terms)
				terms = []Term{}
			case ")":
				if len(open) == 0 {
					return nil, fmt.Errorf("line %d: a ) too many", n+1)
				}
				done := Term{list: terms}
				terms = append(open[len(open)-1], done)
				open = open[:len(open)-1]
			default:
				terms = append(terms, atom(word))
			}
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%d ) are missing", len(open))
	}
	return terms, nil
}
