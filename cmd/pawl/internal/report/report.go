// SPDX-License-Identifier: Apache-2.0

// Package report has the JSON with which pawl describes locks and stores. While Schema is 1,
// fields may be added, but no field is renamed or removed, or changes its meaning.
package report

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
)

// Schema is the version of the JSON.
const Schema = 1

// Lock describes a name with its holders and waiters.
type Lock struct {
	Name    string        `json:"name"`
	Held    bool          `json:"held"`
	Token   pawl.Token    `json:"token"` // the largest that was granted or reserved; holders may have smaller ones
	Holders []pawl.Held   `json:"holders"`
	Waiters []pawl.Waiter `json:"waiters"` // first come first
}

// Broken is the result of a break.
type Broken struct {
	Schema int      `json:"schema"`
	Store  string   `json:"store"`
	Name   string   `json:"name"`
	Broken []string `json:"broken"` // lease ids; empty if the lease has ended by itself
}

// State is the state of a store: its MaxTTL and its quarantine.
type State struct {
	MaxTTL string       `json:"max_ttl,omitempty"` // empty: nobody has set it
	SetBy  *pawl.Holder `json:"max_ttl_set_by,omitempty"`
	Closed string       `json:"closed,omitempty"` // the store grants nothing for so long
	Until  time.Time    `json:"closed_until,omitzero"`
	Why    string       `json:"closed_because,omitempty"`
}

// LockOf returns info as a Lock.
func LockOf(info *pawl.Info) Lock {
	l := Lock{info.Name, len(info.Holders) > 0, info.Token, append([]pawl.Held{}, info.Holders...), append([]pawl.Waiter{}, info.Waiters...)}
	for i := range l.Holders {
		h := &l.Holders[i]
		h.Acquired, h.Renewed, h.Expires = instant(h.Acquired), instant(h.Renewed), instant(h.Expires)
	}
	for i := range l.Waiters {
		l.Waiters[i].Since = instant(l.Waiters[i].Since)
	}
	return l
}

// instant returns t, or the zero time if JSON cannot express t. Another program wrote t to
// the store, and may have written anything.
func instant(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 0 || y > 9998 {
		return time.Time{}
	}
	return t
}

// StateOf returns info as a State.
func StateOf(info *pawl.StoreInfo) *State {
	out := &State{SetBy: info.SetBy, Why: info.Why}
	if info.MaxTTL != 0 {
		out.MaxTTL = info.MaxTTL.String()
	}
	if info.Closed > 0 {
		left := max(info.Closed.Round(time.Second), time.Second)
		out.Closed, out.Until = left.String(), time.Now().Add(left)
	}
	return out
}

// Shut says for how long the store grants nothing, and why. It returns "" if the store grants leases.
func (s *State) Shut() string {
	if s == nil || s.Closed == "" {
		return ""
	}
	return fmt.Sprintf("grants nothing for %s, until %s: %s", s.Closed, s.Until.Local().Format(time.TimeOnly), s.Why)
}
