// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
)

// Reason says how a lease was lost, in a LostError.
type Reason = driver.Reason

// How a lease was lost.
const (
	ReasonExpired Reason = driver.Expired // it was not renewed in time
	ReasonBroken  Reason = driver.Broken  // somebody called Break
	ReasonGone    Reason = driver.Gone    // the store no longer has it
	ReasonLimit   Reason = driver.Limit   // MaxHold is over
	ReasonStuck   Reason = driver.Stuck   // the holder reported no progress; see ProgressEvery
)

// Outcomes to test for with errors.Is. An error is at most one of them. None hides a context
// error or the cause of a context. The error of a call whose context ended while it waited is
// also ErrHeld if the holder is known, or ErrUnavailable if the store grants nothing at present.
var (
	// ErrHeld means that another caller holds the name. Wait, or give up. See HeldError.
	ErrHeld = driver.ErrHeld
	// ErrLost means that the lease has ended without a Release. Stop, and do not write. See
	// LostError.
	ErrLost = driver.ErrLost
	// ErrReleased means that the holder has given the lease back.
	ErrReleased = driver.ErrReleased
	// ErrUnavailable means that the store did not answer and has certainly recorded no lease.
	// It may have recorded the place of a waiter; the client removes that in the background.
	// A lease that is lost because the store does not answer is ErrLost only.
	ErrUnavailable = driver.ErrUnavailable
	// ErrDenied means that the store refuses this user, for example because of a wrong
	// password or a missing right. It is also fs.ErrPermission. Do not try again.
	ErrDenied = driver.ErrDenied
	// ErrDisagree means that a setting of this client, such as MaxTTL, differs from the one
	// that all clients of the store have agreed on. The error says what to change. Do not try
	// again.
	ErrDisagree = driver.ErrDisagree
	// ErrUncertain means that the answer of the store was lost. After an attempt to acquire,
	// the caller does not hold the name, but the store may have recorded the grant. The client
	// undoes it in the background; until then, or for one TTL, others may have to wait.
	ErrUncertain = driver.ErrUncertain
	// ErrDeadlock means that callers wait for each other in a cycle. Release what you hold, and
	// begin again. See DeadlockError.
	ErrDeadlock = client.ErrDeadlock
	// ErrClosed means that Close of the client was called.
	ErrClosed = driver.ErrClosed
)

// Error is the error of every operation of this package.
type Error struct {
	// Op is acquire, try, extend, downgrade, guard, release, elect, observe, inspect, list,
	// break, describe, ping, open or close. It is empty if the error says what has happened to a lease.
	Op   string
	Name string // that the lease is on; empty if the operation has none
	Err  error  // the cause
}

// wrap returns an *Error. A name that is too long may be anything.
func wrap(op, name string, err error) error {
	if len(name) > driver.MaxName {
		name = driver.Shorten(name)
	}
	return &Error{op, name, err}
}

// Error returns the operation, the name and the cause in one line.
func (e *Error) Error() string {
	s := e.Op
	if e.Name != "" {
		s = strings.TrimSpace(fmt.Sprintf("%s %q", s, e.Name))
	}
	if s != "" {
		s += ": "
	}
	text := e.Err.Error()
	if doubt := doubts[e.Op]; doubt != "" && errors.Is(e, ErrUncertain) {
		text = strings.Replace(text, ErrUncertain.Error(), ErrUncertain.Error()+": "+doubt, 1)
	}
	return "pawl: " + s + text
}

// doubts are what ErrUncertain means after each operation.
var doubts = map[string]string{
	"acquire":   "the store may have recorded the grant",
	"try":       "the store may have recorded the grant",
	"extend":    "the store may have extended the lease",
	"downgrade": "the store may have either lease, and the client gives both back",
	"release":   "the store may still have the lease",
	"break":     "the lease may have ended",
}

// Unwrap returns the cause, which is one outcome only. If Err is several outcomes, that is the one
// that restricts the caller most: a program that tries again after ErrUnavailable must not do so
// after a lease was lost because the store did not answer.
func (e *Error) Unwrap() error { return client.Only(e.Err) }

// As finds the errors of this package in what a store has returned, for errors.As.
func (e *Error) As(target any) bool {
	switch t := target.(type) {
	case **HeldError:
		return as(e.Err, t, func(d *driver.HeldError) *HeldError { return &HeldError{infoOf(d.Info), d.Place} })
	case **LostError:
		return as(e.Err, t, func(d *driver.LostError) *LostError {
			return &LostError{d.Reason, (*Holder)(d.By), d.Why, d.Err, d.Paused}
		})
	case **ClosedError:
		return as(e.Err, t, func(d *driver.ClosedError) *ClosedError {
			return &ClosedError{d.Left, d.MaxTTL, (*Holder)(d.SetBy), d.Do}
		})
	case **SilentError:
		return as(e.Err, t, func(d *driver.SilentError) *SilentError { return (*SilentError)(d) })
	case **SlotsError:
		return as(e.Err, t, func(d *driver.SlotsError) *SlotsError { return (*SlotsError)(d) })
	}
	return false
}

func as[D, E error](err error, target *E, convert func(D) E) bool {
	d, ok := errors.AsType[D](err)
	if ok {
		*target = convert(d)
	}
	return ok
}

// DeadlockError is ErrDeadlock with the cycle of waiters.
type DeadlockError struct {
	// Cycle begins with the caller. Each waits for a lease of the next, and the last for
	// a lease that the caller holds.
	Cycle []Blocked
}

// Blocked is a waiter and a lease that is in its way.
type Blocked struct {
	Waiter Waiter // who waits
	Name   string // what it waits for
	By     Held   // the lease on Name
}

// Error names the waiters of the cycle and what each of them holds.
func (e *DeadlockError) Error() string {
	text, held := ErrDeadlock.Error()+": ", ""
	for i, b := range e.Cycle {
		if i > 0 {
			text += fmt.Sprintf("%v holds %q and waits for %q; ", b.Waiter.Holder, held, driver.Shorten(b.Name))
		}
		held = driver.Shorten(b.Name)
	}
	return fmt.Sprintf("%sthe caller holds %q", text, held)
}

// Is makes errors.Is(err, ErrDeadlock) true.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// Deadlocks returns the cycles of waiters in two answers of List, or of Inspect for several names.
// In a cycle each waiter waits for a lease of the next, and the last for a lease of the first.
// Each waiter that is in a cycle is in one of the cycles returned.
//
// An answer does not show all names at the same instant, so a cycle in one answer may never have
// existed. A cycle in both existed when the first answer was complete. Deadlocks(infos, infos)
// returns the cycles that a second answer has to confirm.
//
// Deadlocks reports only certain cycles, by Waiter.Holds. It takes no waiter for one of several
// slots as blocked, because any holder may leave first.
func Deadlocks(before, after []*Info) (cycles [][]Blocked) {
	return client.Cycles(blocked(before), blocked(after))
}

// blocked returns the waiters that hold leases, each with every lease that is certainly in its way. A reader
// behind a writer may wait while readers hold the name; then the writer is in its way, not the readers.
func blocked(infos []*Info) (all []client.Blocked[Blocked]) {
	for _, info := range infos {
		for _, w := range info.Waiters {
			for _, h := range info.Holders {
				free := w.Shared && h.Shared || w.Slots > 1 && h.Slots > 0
				if w.Lease == "" || len(w.Holds) == 0 || free {
					continue
				}
				b := client.Blocked[Blocked]{Of: Blocked{w, info.Name, h}, Wait: client.Wait{Name: info.Name, Waiter: w.Lease, By: h.Lease}}
				for _, hold := range w.Holds {
					b.Holds = append(b.Holds, hold.Lease)
				}
				all = append(all, b)
			}
		}
	}
	return all
}

// search implements client.Config.Search.
func search(before, after []*driver.Info, lease string) (rank int, dead error) {
	for _, cycle := range Deadlocks(each(before, infoOf), each(after, infoOf)) {
		i := slices.IndexFunc(cycle, func(b Blocked) bool { return b.Waiter.Lease == lease })
		if i < 0 {
			continue
		}
		cycle = slices.Concat(cycle[i:], cycle[:i])
		for _, b := range cycle {
			if b.By.Lease > cycle[len(cycle)-1].By.Lease {
				rank++
			}
		}
		return rank, &DeadlockError{cycle}
	}
	return 0, nil
}

// HeldError is an ErrHeld that says who holds the name.
type HeldError struct {
	Info  *Info // nil, or without holders, if the store could not say
	Place int   // the place in the queue of a call that waited: 1 is next; 0 if unknown
}

// Error describes the holder.
func (e *HeldError) Error() string {
	d := driver.HeldError{Place: e.Place}
	if e.Info != nil {
		d.Info = new(driver.Info)
		for _, h := range e.Info.Holders {
			d.Info.Holders = append(d.Info.Holders, driver.Held{
				Holder: driver.Holder(h.Holder), Token: h.Token, Why: h.Why, Acquired: h.Acquired, Shared: h.Shared, Slots: h.Slots,
				Orphan: h.Orphan, Transaction: (*driver.Transaction)(h.Transaction),
			})
		}
	}
	return d.Error()
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
