// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"fmt"
	"slices"
	"strings"
)

// kind is the kind of a lease: exclusive, shared, or one of k slots, if k is positive.
type kind int

const (
	exclusive kind = 0
	shared    kind = -1
)

func (k kind) String() string {
	switch k {
	case exclusive:
		return "exclusive"
	case shared:
		return "shared"
	}
	return fmt.Sprintf("one of %d slots", int(k))
}

// action is what an operation did, according to its answer.
type action int

const (
	granted    action = iota // the store granted a lease
	refused                  // the store granted no lease: others hold the name
	otherSlots               // the store granted no lease: slots of another number are held
	released                 // the lease was held until its holder released it
	trusted                  // the lease was held: its holder looked at it, or extended it
	downgraded               // the lease was held until heir, a shared one, was granted in its place
	broke                    // the lease was held until somebody broke it
	missed                   // the lease was not held when somebody tried to break it
	mayEnd                   // the lease may have ended, or may end at any later moment
)

func (a action) String() string {
	return [...]string{"granted", "refused", "other slots are held", "released", "trusted", "downgraded", "broken",
		"not there to be broken", "may end"}[a]
}

// operation is a step in the history of a name. It takes effect at one moment between
// call and ret.
type operation struct {
	do     action
	lease  int    // number of the lease
	heir   int    // downgraded: number of the shared lease
	kind   kind   // the kind that the caller asked for
	held   kind   // otherSlots: the kind that is held
	token  uint64 // token of the granted lease
	worker int
	call   int64
	ret    int64

	rank int // position of the token among all tokens, from 0; -1 if the store has no tokens
}

func (o operation) String() string {
	s := fmt.Sprintf("worker %d, %5d to %5d: ", o.worker, o.call, o.ret)
	if o.ret == never {
		s = fmt.Sprintf("worker %d, from  %5d on: ", o.worker, o.call)
	}
	switch o.do {
	case granted:
		return s + fmt.Sprintf("#%d granted, %v, token %d", o.lease, o.kind, o.token)
	case refused:
		return s + fmt.Sprintf("%v refused", o.kind)
	case otherSlots:
		return s + fmt.Sprintf("%v refused: %v is held", o.kind, o.held)
	case downgraded:
		return s + fmt.Sprintf("#%d downgraded to #%d, token %d", o.lease, o.heir, o.token)
	}
	return s + fmt.Sprintf("#%d %v", o.lease, o.do)
}

// state is the state of a name. It is comparable.
//
// A lease that may end stays in loose until an operation shows that it has ended. So porcupine
// need not search for the moment of its end, which would take time exponential in the number
// of such leases.
type state struct {
	grants int    // number of grants so far, if the store has tokens
	kind   kind   // kind of the leases that hold the name
	firm   string // numbers of the leases that hold the name, one rune each, sorted
	loose  string // the same for leases that hold the name or have ended
}

func (s state) String() string {
	if s.firm+s.loose == "" {
		return "free"
	}
	return fmt.Sprintf("%v, held by #%d, and perhaps by #%d", s.kind, []rune(s.firm), []rune(s.loose))
}

func (s state) has(lease int) bool { return strings.ContainsRune(s.firm+s.loose, rune(lease)) }

// admits reports whether the store may grant a lease of kind k while the leases in holders
// hold the name.
func (s state) admits(k kind, holders string) bool {
	switch {
	case holders == "":
		return true
	case k != s.kind || k == exclusive:
		return false
	}
	return k == shared || len([]rune(holders)) < int(k)
}

// step reports whether o may happen in s, and returns the state after it. It is the contract
// of package driver for one name, without times and the order of waiters.
func (s state) step(o operation) (bool, state) {
	switch o.do {
	case granted:
		if !s.admits(o.kind, s.firm) || o.rank >= 0 && o.rank != s.grants {
			return false, s
		}
		return true, s.with(o)
	case refused:
		return !s.admits(o.kind, s.firm+s.loose), s
	case otherSlots:
		return s.firm+s.loose != "" && s.kind == o.held && o.held > 0 && o.held != o.kind, s
	case trusted:
		return s.has(o.lease), s
	case missed:
		return !strings.ContainsRune(s.firm, rune(o.lease)), s.without(o.lease)
	case released, broke:
		return s.has(o.lease), s.without(o.lease)
	case mayEnd:
		if !s.has(o.lease) {
			return true, s
		}
		k := s.kind
		s = s.without(o.lease)
		s.kind, s.loose = k, insert(s.loose, o.lease)
		return true, s
	}
	// o.do is downgraded.
	if !s.has(o.lease) || s.kind != exclusive {
		return false, s
	}
	return s.without(o.lease).step(operation{do: granted, lease: o.heir, kind: shared, rank: o.rank})
}

// with returns s with the lease that o grants. Loose leases of another kind must have ended, and
// also all loose leases if the kind is exclusive. Among slots, the model cannot know which loose leases
// have ended, so they stay.
func (s state) with(o operation) state {
	if o.rank >= 0 {
		s.grants++
	}
	if o.kind != s.kind || o.kind == exclusive {
		s.loose = ""
	}
	s.kind, s.firm = o.kind, insert(s.firm, o.lease)
	return s
}

func (s state) without(lease int) state {
	s.firm = strings.ReplaceAll(s.firm, string(rune(lease)), "")
	s.loose = strings.ReplaceAll(s.loose, string(rune(lease)), "")
	if s.firm+s.loose == "" {
		s.kind = exclusive // so that all free states are equal
	}
	return s
}

func insert(holders string, lease int) string {
	all := append([]rune(holders), rune(lease))
	slices.Sort(all)
	return string(all)
}
