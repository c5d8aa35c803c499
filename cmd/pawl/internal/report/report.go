// SPDX-License-Identifier: Apache-2.0

// Package report has the JSON types with which pawl describes locks and stores. They are
// separate from the types of package driver, so that the JSON does not change with those.
// While Schema is 1, fields may be added, but no field is renamed or removed, or changes
// its meaning.
package report

import (
	"time"

	"github.com/pawl-go/pawl"
)

// Schema is the version of the JSON.
const Schema = 1

// Lock describes a name with its holders and waiters.
type Lock struct {
	Name    string     `json:"name"`
	Held    bool       `json:"held"`
	Token   pawl.Token `json:"token"` // the largest that was granted or reserved; holders may have smaller ones
	Holders []Holder   `json:"holders"`
	Waiters []Waiter   `json:"waiters"` // first come first
}

// Person is a holder or a waiter.
type Person struct {
	Who     string `json:"who,omitempty"`
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Space   string `json:"space,omitempty"` // the PID namespace in which PID counts
	Command string `json:"command,omitempty"`
	Why     string `json:"why,omitempty"`
}

// Holder is a lease and its holder.
type Holder struct {
	Person
	Lease    string     `json:"lease"`
	Token    pawl.Token `json:"token,omitempty"`
	Acquired time.Time  `json:"acquired,omitzero"`
	Renewed  time.Time  `json:"renewed,omitzero"`
	Expires  time.Time  `json:"expires,omitzero"`
	Orphan   bool       `json:"orphan,omitempty"` // the process has ended, but processes that it started go on
	Shared   bool       `json:"shared,omitempty"`
	Slots    int        `json:"slots,omitempty"` // how many slots the lock has, if this lease is one
	// Transaction is an open transaction that keeps the name, although the lease that guards it has ended.
	Transaction *pawl.Transaction `json:"transaction,omitempty"`
}

// Waiter is a waiter for a lock.
type Waiter struct {
	Person
	Lease  string    `json:"lease,omitempty"` // the id that its lease will have
	Since  time.Time `json:"since,omitzero"`
	Shared bool      `json:"shared,omitempty"`
	Slots  int       `json:"slots,omitempty"`
	Holds  []Hold    `json:"holds,omitempty"` // leases that it holds while it waits
}

// Hold is a lease that a waiter holds.
type Hold struct {
	Name  string `json:"name"`
	Lease string `json:"lease"`
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
	MaxTTL string    `json:"max_ttl,omitempty"` // empty: nobody has set it
	SetBy  *Person   `json:"max_ttl_set_by,omitempty"`
	Closed string    `json:"closed,omitempty"` // the store grants nothing for so long
	Until  time.Time `json:"closed_until,omitzero"`
	Why    string    `json:"closed_because,omitempty"`
}

// PersonOf describes h. why is the reason that h gave for its lease.
func PersonOf(h pawl.Holder, why string) Person {
	return Person{Who: h.Who, User: h.User, Host: h.Host, PID: h.PID, Space: h.Space, Command: h.Command, Why: why}
}

// String returns the person in one line: alice@ci-7 (pid 812, "terraform apply").
func (p Person) String() string {
	return pawl.Holder{Who: p.Who, User: p.User, Host: p.Host, PID: p.PID, Space: p.Space, Command: p.Command}.String()
}

// LockOf returns info as a Lock.
func LockOf(info *pawl.Info) Lock {
	l := Lock{
		Name:    info.Name,
		Held:    len(info.Holders) > 0,
		Token:   info.Token,
		Holders: []Holder{},
		Waiters: []Waiter{},
	}
	for _, h := range info.Holders {
		l.Holders = append(l.Holders, Holder{PersonOf(h.Holder, h.Why), h.Lease, h.Token,
			instant(h.Acquired), instant(h.Renewed), instant(h.Expires), h.Orphan, h.Shared, h.Slots, h.Transaction})
	}
	for _, w := range info.Waiters {
		waiter := Waiter{Person: PersonOf(w.Holder, w.Why), Lease: w.Lease, Since: instant(w.Since), Shared: w.Shared, Slots: w.Slots}
		for _, h := range w.Holds {
			waiter.Holds = append(waiter.Holds, Hold(h))
		}
		l.Waiters = append(l.Waiters, waiter)
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
	out := &State{Why: info.Why}
	if info.MaxTTL != 0 {
		out.MaxTTL = info.MaxTTL.String()
	}
	if info.SetBy != nil {
		p := PersonOf(*info.SetBy, "")
		out.SetBy = &p
	}
	if info.Closed > 0 {
		left := max(info.Closed.Round(time.Second), time.Second)
		out.Closed, out.Until = left.String(), time.Now().Add(left)
	}
	return out
}
