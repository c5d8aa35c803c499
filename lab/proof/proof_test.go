// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Of two counters one is never greater: the first is raised only while it is smaller.
const counters = `
(state low () Int 0)
(state high () Int 0)
(action raise ((n Int)) (when more (> n high)) (set high n))
(action follow () (when smaller (< low high)) (set low (+ low 1)))
(invariant ordered (<= low high))
(promise follow room (< low high))
(possible by-two raise (= n (+ high 2)))
(variant careless (drop follow smaller) (refuted (follow ordered)))
(variant backwards (sets raise high (- n 2)) (refuted (raise ordered)))
(variant harmless (drop raise more) (refuted (follow ordered)))
(variant nothing (drop raise fewer) (refuted (raise ordered)))
`

func read(t *testing.T, text string) (*Model, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.smt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(file)
}

func ask(t *testing.T, s Solver, m *Model, want func(Obligation) bool) map[string]string {
	t.Helper()
	as, err := s.Ask(m, 10*time.Second, want)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, a := range as {
		said[a.String()] = a.Said
	}
	return said
}

func TestCounters(t *testing.T) {
	m, err := read(t, counters)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"initially ordered": "unsat", "always possible": "sat",
		"raise ordered": "unsat", "raise possible": "sat", "raise by-two": "sat",
		"follow ordered": "unsat", "follow room": "unsat", "follow possible": "sat",
	}
	for _, s := range []Solver{Z3, CVC5} {
		said := ask(t, s, m, nil)
		for o, w := range want {
			if said[o] != w {
				t.Errorf("%s: %s: %q, want %s", s.Name, o, said[o], w)
			}
		}
		if len(said) != len(want) {
			t.Errorf("%s: %d answers, want %d", s.Name, len(said), len(want))
		}
	}
	for i, w := range []string{"sat", "sat", "unsat"} {
		v := m.Variants[i]
		wrong, err := m.With(v)
		if err != nil {
			t.Fatal(err)
		}
		if said := ask(t, Z3, wrong, v.Names); len(said) != 1 || said[v.Refuted[0]] != w {
			t.Errorf("%s: %v, want %s", v.Name, said, w)
		}
	}
	if _, err := m.With(m.Variants[3]); err == nil || !strings.Contains(err.Error(), "changes nothing") {
		t.Errorf("a variant that changes nothing: %v", err)
	}
}

// A word that is misspelt is an error, and no obligation that is met.
func TestMistakesInAProtocol(t *testing.T) {
	for _, text := range []string{"(state a () Bool", "(state a () Bool))", "(rule a true)", "(action a () (then b true))", "(promise a b true)"} {
		if _, err := read(t, text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	m, err := read(t, "(state a () Bool true) (invariant b (or a c))")
	if err != nil {
		t.Fatal(err)
	}
	if as, err := Z3.Ask(m, time.Second, nil); err == nil {
		t.Errorf("an unknown name: %v", as)
	}
}
