// SPDX-License-Identifier: Apache-2.0

// Proof has z3 show that the invariant of a protocol holds after every step, for any
// number of nodes, leases and restarts, that what has to be possible is, and that each
// variant has a mistake.
//
//	go run ./lab/proof          all of it; then the same obligations by cvc5
//	go run ./lab/proof -quick   without cvc5
//
// A protocol has sorts, fixed functions, functions that are its state, actions and an
// invariant. An action has parameters, conditions, each with a name, and assignments,
// which all take place at once. lab/proof/README.md explains it with the protocol of Redlock.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// What z3 answers takes milliseconds. cvc5 does not answer all that z3 does.
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

// variant reports whether the obligations that a variant names can fail.
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

// compare has cvc5 answer the same questions. It may say nothing, but not the opposite.
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
