// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Token is a fencing token: greater than that of every earlier lease on the same name, or 0 if the
// store has none. Send it along with every write, and have the resource refuse a token smaller than
// the largest it has seen.
type Token = driver.Token

// Holder describes the process that holds or waits for a name. It is for people only: exclusion
// depends on the id of the lease.
type Holder struct {
	Who     string `json:"who,omitempty"` // free text in place of user and host, such as "ci job 8812"
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`     // the process id, in Space
	Command string `json:"command,omitempty"` // the program; its arguments may be missing

	// Space identifies the PID namespace of PID. In another container the same number is another
	// process.
	Space string `json:"space,omitempty"`

	// Trace is the traceparent (W3C Trace Context) of the span that asked for the lease, so that
	// other spans can link to it; see Observer.Trace. It is empty without a trace. Any client may
	// have written it: expect any text.
	Trace string `json:"trace,omitempty"`
}

// String returns the holder in one line: alice@ci-7 (pid 812, "terraform apply").
func (h Holder) String() string { return driver.Holder(h).String() }

// Here reports whether this process could see the process PID: Host is this host, and Space is the
// PID namespace of this process.
func (h Holder) Here() bool { return driver.Holder(h).Here() }

// Info describes one name.
type Info struct {
	Name string `json:"name"`
	// Token is the largest token of the name, granted or reserved. The Token of a Held may be
	// smaller; the next lease has a greater one. It is 0 if the store, such as Redis, does not
	// remember tokens of free names.
	Token   Token    `json:"token,omitempty"`
	Holders []Held   `json:"holders"`           // none if the name is free
	Waiters []Waiter `json:"waiters,omitempty"` // in the order of the queue
}

// Held describes one lease. Times are by the clock of the machine that wrote them, for people only;
// zero means unknown.
type Held struct {
	Holder
	Lease    string    `json:"lease"` // its id, for Break
	Token    Token     `json:"token,omitempty"`
	Why      string    `json:"why,omitempty"`     // what it is for; see the option Why
	Acquired time.Time `json:"acquired,omitzero"` // when it was granted
	Renewed  time.Time `json:"renewed,omitzero"`  // when it was renewed last
	Expires  time.Time `json:"expires,omitzero"`  // when the store ends it unless it is renewed
	Shared   bool      `json:"shared,omitempty"`
	Slots    int       `json:"slots,omitempty"` // how many the name has; 0 unless the lease is one of them
	// Keeps: after its release the client may keep the lease for a while, and gives it back when
	// others want the name; see KeepIdle. Idle: the client keeps it now, and nobody uses it. Only
	// that client knows and shows Idle.
	Keeps bool `json:"keeps,omitempty"`
	Idle  bool `json:"idle,omitempty"`
	// Orphan: the process that took the lease has ended, but processes that it started still have
	// it.
	Orphan bool `json:"orphan,omitempty"`
	// Transaction: the lease has ended, but nobody gets the name before this transaction ends; see
	// Lease.Guard.
	Transaction *Transaction `json:"transaction,omitempty"`
}

// Waiter describes one waiter in the queue.
type Waiter struct {
	Holder
	Lease  string    `json:"lease,omitempty"`  // the id that its lease would have; empty if it has none yet
	Since  time.Time `json:"since,omitzero"`   // when it began to wait; zero means unknown
	Why    string    `json:"why,omitempty"`    // what the lease is for
	Shared bool      `json:"shared,omitempty"` // it waits for a shared lease
	Slots  int       `json:"slots,omitempty"`  // it waits for one of so many slots; 0 otherwise
	Holds  []Hold    `json:"holds,omitempty"`  // the leases that it holds while it waits
	// Local: the store does not know this waiter, because it waits inside this client for one of
	// the client's own leases.
	Local bool `json:"local,omitempty"`
}

// Hold names a lease that a waiter holds while it waits for another.
type Hold struct {
	Name  string `json:"name"`  // that the lease is on
	Lease string `json:"lease"` // its id
}

// Transaction describes an open transaction, as the database shows it.
type Transaction struct {
	PID         int       `json:"pid,omitempty"`         // of the server's process; 0 if the transaction is prepared
	Application string    `json:"application,omitempty"` // its application_name
	Since       time.Time `json:"since,omitzero"`        // zero if this user may not know
}

// String says which transaction it is: server process 4711 ("billing"), for 3m12s.
func (t *Transaction) String() string { return (*driver.Transaction)(t).String() }

// End says how to end the transaction by hand.
func (t *Transaction) End() string { return (*driver.Transaction)(t).End() }

// LostError is an ErrLost that says why the lease is lost.
type LostError struct {
	Reason Reason  // how the lease was lost
	By     *Holder // who broke the lease; nil if unknown
	Why    string  // the reason that was given to Break
	Err    error   // what the store said, or why the last renewal failed; nil if unknown; errors.Is ignores it

	// Paused, with ReasonExpired, is how long at least this process did not run when it had to
	// renew; 0 if it ran.
	Paused time.Duration
}

// Error gives the reason.
func (e *LostError) Error() string {
	return (&driver.LostError{Reason: e.Reason, By: (*driver.Holder)(e.By), Why: e.Why, Err: e.Err, Paused: e.Paused}).Error()
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// ClosedError is an ErrUnavailable of a store that may have forgotten leases, and grants nothing
// until they have ended.
type ClosedError struct {
	Left   time.Duration // for how much longer
	MaxTTL time.Duration // of the store, which bounds Left; 0 if unknown
	SetBy  *Holder       // who has set MaxTTL; nil if unknown
	Do     string        // what to do to end this at once, in one clause; empty if unknown
}

// Error says how long the store stays closed, and why.
func (e *ClosedError) Error() string {
	return (&driver.ClosedError{Left: e.Left, MaxTTL: e.MaxTTL, SetBy: (*driver.Holder)(e.SetBy), Do: e.Do}).Error()
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *ClosedError) Is(target error) bool { return target == ErrUnavailable }

// SilentError is the ErrUnavailable of a call of Acquire that waits, if the store has not answered
// for a whole TTL, or has refused all requests.
type SilentError struct {
	For time.Duration // how long the store has not answered
	Err error         // the error of the last request
}

// Error says how long the store has been silent, and why the last request has failed.
func (e *SilentError) Error() string { return (*driver.SilentError)(e).Error() }

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *SilentError) Is(target error) bool { return target == ErrUnavailable }

// SlotsError says that the name is held with another number of slots.
type SlotsError struct {
	Held   int // slots of the leases that are held
	Wanted int // slots that were asked for
}

// Error says what to do.
func (e *SlotsError) Error() string { return (*driver.SlotsError)(e).Error() }

// Guarantees lists what a store can promise.
type Guarantees struct {
	Fencing         bool // every lease has a token, greater than all earlier ones on the name
	FIFO            bool // waiters of different clients are granted a name in the order in which they came
	CrossHost       bool // clients may be on different machines
	Expiry          bool // a lease ends when its TTL has passed without a renewal; else with its process
	SurvivesRestart bool // a restart of the store loses no lease that its holder trusts, and tokens go on
	Shared          bool // leases can be shared, as by readers
	Slots           bool // a fixed number of leases on a name can be held at a time
}

// StoreInfo is the state of a store.
type StoreInfo struct {
	MaxTTL  time.Duration // the longest TTL, as all clients have agreed; 0 before the first lease, or if the store needs none
	SetBy   *Holder       // who has set MaxTTL; nil if unknown
	Closed  time.Duration // for how much longer the store grants nothing, because it may have forgotten leases
	Why, Do string        // why it is closed, and how to end that at once; empty if it is not
}

// each returns f of each element of list.
func each[D, E any](list []D, f func(D) E) (all []E) {
	for _, d := range list {
		all = append(all, f(d))
	}
	return all
}

func infoOf(d *driver.Info) *Info {
	if d == nil {
		return nil
	}
	return &Info{d.Name, d.Token, each(d.Holders, func(h driver.Held) Held { return *heldOf(&h) }), each(d.Waiters, waiterOf)}
}

func waiterOf(d driver.Waiter) Waiter {
	holds := each(d.Holds, func(h driver.Hold) Hold { return Hold(h) })
	return Waiter{Holder(d.Holder), d.Lease, d.Since, d.Why, d.Shared, d.Slots, holds, d.Local}
}

func heldOf(d *driver.Held) *Held {
	if d == nil {
		return nil
	}
	return &Held{Holder(d.Holder), d.Lease, d.Token, d.Why, d.Acquired, d.Renewed, d.Expires, d.Shared, d.Slots, d.Keeps, d.Idle, d.Orphan, (*Transaction)(d.Transaction)}
}

// Event describes one thing that has happened to a lease, or, for Stepped, Closed, Silent and
// Refused, to the store.
type Event struct {
	Name   string        // of the lease
	Lease  string        // the id of the lease; empty if there is none
	Token  Token         // 0 if there is none
	Waited time.Duration // how long the call or the request took
	Held   time.Duration // how long the lease was held, once it has ended
	Err    error         // an *Error; of Waited, Suspect, Lost, Released and Refused

	// These describe the call that asked for the lease.
	Context context.Context // its context, for its values
	Shared  bool            // it has the option Shared
	Slots   int             // the n of the option Slots; 0 without it
	Tried   bool            // it does not wait: TryAcquire and the like

	// Idle means, in Released, that the client keeps the grant of the store, see KeepIdle, and in
	// Acquired, that the client had kept the grant and did not ask the store.
	Idle bool

	// Behind, in Acquired and Waited, is a lease that the call found in its way, for the link of a
	// span. The client asks the store for it once, after 50 ms of waiting and only with
	// Observer.Trace. It is nil otherwise, and if the store did not say.
	Behind *Held

	Server string        // of Stepped, Closed and Silent; for people
	Step   time.Duration // of Stepped; negative if the clock was set back
	Left   time.Duration // of Renewed, Suspect and Closed
	TTL    time.Duration // of Renewed
}
