// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Solver is a program that reads SMT-LIB.
type Solver struct {
	Name string
	args func(each time.Duration) []string
	head string
}

// Z3 and CVC5 are solvers that Debian packages.
var (
	Z3 = Solver{"z3", func(each time.Duration) []string {
		return []string{"-in", "-smt2", fmt.Sprintf("-t:%d", each.Milliseconds())}
	},
		"(set-option :smt.random_seed 7)\n"}
	CVC5 = Solver{"cvc5", func(each time.Duration) []string {
		return []string{"--lang=smt2", "--incremental", fmt.Sprintf("--tlimit-per=%d", each.Milliseconds())}
	}, "(set-logic ALL)\n"}
)

// Answer is the answer of a solver to an obligation: unsat, sat or unknown.
type Answer struct {
	Obligation
	Said string
}

// OK reports whether the answer is the one that the proof needs.
func (a Answer) OK() bool { return a.Said == a.Want() }

// Want returns the answer that the proof needs.
func (o Obligation) Want() string {
	if o.Sat {
		return "sat"
	}
	return "unsat"
}

// Ask asks the solver about all obligations for which want returns true, or about all if want is nil. each
// is the time for one obligation. Two processes work at a time.
func (s Solver) Ask(m *Model, each time.Duration, want func(Obligation) bool) ([]Answer, error) {
	gs := m.groups()
	answers, errs := make([][]Answer, len(gs)), make([]error, len(gs))
	slots := make(chan struct{}, 2)
	var wait sync.WaitGroup
	for i, g := range gs {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answers[i], errs[i] = s.ask(g, each, want)
		})
	}
	wait.Wait()
	var found []Answer
	for i := range gs {
		if errs[i] != nil {
			return nil, errs[i]
		}
		found = append(found, answers[i]...)
	}
	return found, nil
}

func (s Solver) ask(g group, each time.Duration, want func(Obligation) bool) ([]Answer, error) {
	var answers []Answer
	var in strings.Builder
	in.WriteString(s.head + g.common)
	for _, o := range g.list {
		if want == nil || want(o) {
			fmt.Fprintf(&in, "(push 1)\n%s(check-sat)\n(pop 1)\n", o.text)
			answers = append(answers, Answer{Obligation: o})
		}
	}
	if answers == nil {
		return nil, nil
	}
	cmd := exec.Command(s.Name, s.args(each)...)
	cmd.Stdin = strings.NewReader(in.String())
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	said := strings.Fields(string(out))
	if len(said) != len(answers) || strings.Contains(string(out), "error") {
		return nil, fmt.Errorf("%s about %s: %v: %.2000s%s", s.Name, answers[0].Action, err, out, errors.String())
	}
	for i := range answers {
		answers[i].Said = said[i]
	}
	return answers, nil
}
