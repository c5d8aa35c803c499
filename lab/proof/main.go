// SPDX-License-Identifier: Apache-2.0

// Proof proves with z3 that the invariant of a protocol holds after every step, for any
// number of nodes, leases and restarts. It also shows that the scenes that the protocol needs are
// possible, and that the proof fails for each variant of the protocol, which has a mistake.
//
//	go run ./lab/proof          prove everything with z3, then ask cvc5 as well
//	go run ./lab/proof -quick   without cvc5
//
// A protocol has sorts, fixed functions, functions that are its state, actions and an
// invariant. An action has parameters, named conditions, and assignments that take place at the
// same time. lab/proof/README.md explains this with the protocol of Redlock.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// z3 answers within milliseconds. cvc5 cannot answer every question, so it gets little time for each.
const (
	patience     = 20 * time.Second
	cvc5Patience = 300 * time.Millisecond
)

func main() {
	quick := flag.Bool("quick", false, "without cvc5")
	folder := flag.String("in", "lab/proof", "the folder with the protocols")
	flag.Parse()
	failed := false
	for _, name := range []string{"time", "redlock", "redis"} {
		ok, err := check(*folder+"/"+name+".smt", *quick)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		failed = failed || !ok || err != nil
	}
	if failed {
		os.Exit(1)
	}
}

func check(file string, quick bool) (ok bool, err error) {
	m, err := Read(file)
	if err != nil {
		return false, err
	}
	begun := time.Now()
	first, err := Z3.Ask(m, patience, nil)
	if err != nil {
		return false, err
	}
	ok = true
	proved, possible := 0, 0
	for _, a := range first {
		switch {
		case !a.OK():
			fmt.Printf("NOT MET %-50s z3 says %s, expected %s\n", a.Obligation, a.Said, a.Want())
			ok = false
		case a.Sat:
			possible++
		default:
			proved++
		}
	}
	fmt.Printf("%-50s %d obligations proved, %d things possible  %.1f s\n", file, proved, possible, time.Since(begun).Seconds())
	for _, v := range m.Variants {
		refuted, err := variant(m, v)
		if err != nil {
			return false, err
		}
		ok = ok && refuted
	}
	if !quick {
		err = compare(m, first)
	}
	return ok, err
}

// variant reports whether z3 refutes all obligations that a variant names.
func variant(m *Model, v Variant) (refuted bool, err error) {
	wrong, err := m.With(v)
	if err != nil {
		return false, err
	}
	as, err := Z3.Ask(wrong, patience, v.Names)
	if err != nil {
		return false, err
	}
	refuted = len(as) == len(v.Refuted)
	for _, a := range as {
		refuted = refuted && a.Said == "sat"
	}
	said := "refuted at " + strings.Join(v.Refuted, ", ")
	if !refuted {
		said = fmt.Sprintf("NOT REFUTED at %s: %v", strings.Join(v.Refuted, ", "), as)
	}
	fmt.Printf("  %-48s %s\n", strings.ReplaceAll(v.Name, "-", " "), said)
	return refuted, nil
}

// compare asks cvc5 the same questions. cvc5 may leave some unanswered, but it must not contradict z3.
func compare(m *Model, first []Answer) error {
	begun := time.Now()
	second, err := CVC5.Ask(m, cvc5Patience, func(o Obligation) bool { return !o.Sat })
	if err != nil {
		return err
	}
	z3 := map[string]string{}
	for _, a := range first {
		z3[a.String()] = a.Said
	}
	same := 0
	for _, a := range second {
		switch a.Said {
		case z3[a.String()]:
			same++
		case "sat", "unsat":
			return fmt.Errorf("%s: z3 says %s, cvc5 %s", a.Obligation, z3[a.String()], a.Said)
		}
	}
	fmt.Printf("  cvc5 proves %d of the %d obligations too, and says nothing of the others in %v each  %.1f s\n",
		same, len(second), cvc5Patience, time.Since(begun).Seconds())
	return nil
}
