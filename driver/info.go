// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"strings"
	"time"
)

// Holder says who holds or waits for a name. It is for people only: exclusion depends
// on the id of the lease.
type Holder struct {
	Who     string `json:"who,omitempty"` // free text in place of user and host, such as "ci job 8812"
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`     // the process id, in Space
	Command string `json:"command,omitempty"` // the program; its arguments may be missing

	// Space is the PID namespace of PID, as PIDSpace returns it: in another container the same number is
	// another process.
	Space string `json:"space,omitempty"`

	// Trace is the traceparent (W3C Trace Context) of the span that asked for the lease, so that other
	// spans can link to it. It is empty without a trace; see pawl.Observer. Any client may have written
	// it: expect any text.
	Trace string `json:"trace,omitempty"`
}

// String returns the holder in one line: alice@ci-7 (pid 812, "terraform apply").
func (h Holder) String() string {
	who := h.Who
	if who == "" {
		who = strings.Trim(h.User+"@"+h.Host, "@")
	}
	if who == "" {
		who = "somebody"
	}
	var in []string
	if h.PID != 0 {
		in = append(in, fmt.Sprintf("pid %d%s", h.PID, h.elsewhere()))
	}
	if h.Command != "" {
		in = append(in, fmt.Sprintf("%q", h.Command))
	}
	if len(in) == 0 {
		return who
	}
	return who + " (" + strings.Join(in, ", ") + ")"
}

// Token is a fencing token: greater than that of every earlier lease on the
// same name, or 0 if the store has none. Send it along with every write, and
// have the resource refuse a token smaller than the largest it has seen.
type Token uint64

// Held describes one lease, as the store shows it to everybody. Times are by the clock
// of the machine that wrote them, for people only; zero means unknown.
type Held struct {
	Holder
	Lease    string    `json:"lease"` // its id, for Break
	Token    Token     `json:"token,omitempty"`
	Why      string    `json:"why,omitempty"`     // what it is for; see pawl.Why
	Acquired time.Time `json:"acquired,omitzero"` // when it was granted
	Renewed  time.Time `json:"renewed,omitzero"`  // when it was renewed last
	Expires  time.Time `json:"expires,omitzero"`  // when the store ends it unless it is renewed
	Shared   bool      `json:"shared,omitempty"`
	Slots    int       `json:"slots,omitempty"` // how many the name has; 0 unless the lease is one of them
	// Keeps: after its release the client may keep the lease for a while, and gives it back when
	// others want the name; see pawl.KeepIdle. Idle: the client keeps it now, and nobody uses it.
	// Only that client knows and shows Idle.
	Keeps bool `json:"keeps,omitempty"`
	Idle  bool `json:"idle,omitempty"`
	// Orphan: the process that took the lease has ended, but processes that it started
	// still have it.
	Orphan bool `json:"orphan,omitempty"`
	// Transaction: the lease has ended, but nobody gets the name before this transaction ends;
	// see pawl.Lease.Guard.
	Transaction *Transaction `json:"transaction,omitempty"`
}

// Transaction describes an open transaction, as the database shows it.
type Transaction struct {
	PID         int       `json:"pid,omitempty"`         // of the server's process; 0 if the transaction is prepared
	Application string    `json:"application,omitempty"` // its application_name
	Since       time.Time `json:"since,omitzero"`        // zero if this user may not know
}

// String says which transaction it is: server process 4711 ("billing"), for 3m12s.
func (t *Transaction) String() string {
	if t.PID == 0 {
		return "it is prepared, and no process has it"
	}
	s := fmt.Sprintf("server process %d", t.PID)
	if t.Application != "" {
		s += fmt.Sprintf(" (%q)", t.Application)
	}
	if !t.Since.IsZero() {
		s += ", for " + Ago(t.Since)
	}
	return s
}

// End says how to end the transaction by hand.
func (t *Transaction) End() string {
	if t.PID == 0 {
		return "end that transaction: ROLLBACK PREPARED, see pg_prepared_xacts"
	}
	return fmt.Sprintf("end that transaction: SELECT pg_terminate_backend(%d)", t.PID)
}

// Waiter describes one waiter in the queue.
type Waiter struct {
	Holder
	Lease string    `json:"lease,omitempty"` // the id that its lease would have; empty if it has none yet
	Since time.Time `json:"since,omitzero"`  // when it began to wait; zero means unknown
	Why   string    `json:"why,omitempty"`   // what the lease is for

	Shared bool `json:"shared,omitempty"` // it waits for a shared lease
	Slots  int  `json:"slots,omitempty"`  // it waits for one of so many slots; 0 otherwise

	// Holds are the leases that the waiter holds while it waits; see Request.Holds.
	Holds []Hold `json:"holds,omitempty"`
	// Local: the store does not know this waiter, because it waits inside this client for one of
	// the client's own leases.
	Local bool `json:"local,omitempty"`
}

// Hold names a lease that a waiter holds while it waits for another.
type Hold struct {
	Name  string `json:"name"`  // that the lease is on
	Lease string `json:"lease"` // its id
}

// Info describes one name.
type Info struct {
	Name string `json:"name"`
	// Token is the largest token of the name, granted or reserved. The Token of a Held may be smaller; the next
	// lease has a greater one. 0 if the store, such as Redis, does not remember tokens of free names.
	Token   Token    `json:"token,omitempty"`
	Holders []Held   `json:"holders"`           // none if the name is free
	Waiters []Waiter `json:"waiters,omitempty"` // in the order of the queue
}
