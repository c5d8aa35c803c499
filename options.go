// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
	"github.com/pawl-go/pawl/internal/line"
)

// DefaultTTL is the time to live of a lease if neither Options nor the option TTL sets one. After
// a crash of the holder others wait for that long.
const DefaultTTL = 30 * time.Second

// Options are the settings of a Client. The zero value of every field is a useful default, and
// a nil *Options is the same as an empty one.
type Options struct {
	// TTL is the time to live of leases. 0 means DefaultTTL; less than 10 ms is an error. The
	// client renews leases, so TTL does not limit how long the work may take.
	TTL time.Duration

	// Holder is what other clients see of this one. New fills in fields that are empty: user,
	// host, process id and the base name of the program.
	Holder Holder

	// Logger gets a line for each event that an operator may have to act on. With nil, the
	// default, three warnings go to slog.Default(), once each: that the store grants nothing for
	// a while (unless Observer.Closed is set), that it refuses requests for leases (unless
	// Observer.Refused is set), and that it takes more than a sixth of a TTL to answer (unless
	// Observer.Renewed is set).
	Logger *slog.Logger

	// Observer is called for every event. The default has no functions.
	Observer Observer

	// Require lists the guarantees that the client needs; by default none. If the store lacks
	// one, New returns an error that names it and wraps errors.ErrUnsupported.
	Require Guarantees
}

// Option changes one call of Acquire, TryAcquire, Do or another method that acquires leases.
type Option interface{ apply(*settings) }

// settings are the result of the options of one call.
type settings struct {
	client.Call
	shared   bool
	slots    int // 0 unless hasSlots
	hasSlots bool
}

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// TTL sets the time to live of the lease. 0, the default, means Options.TTL. Less than 10 ms is
// an error.
func TTL(d time.Duration) Option {
	return option(func(s *settings) { s.Terms.TTL = cmp.Or(d, s.Terms.TTL) })
}

// NoRenew makes the lease end, as lost, one TTL after it was acquired, unless Extend is called.
// By default the client renews leases. If leases of the store do not expire, the client ends
// the lease.
func NoRenew() Option { return option(func(s *settings) { s.Terms.NoRenew = true }) }

// MaxHold makes the lease end, as lost, when it has been held for d, even if renewals succeed.
// Without it, a holder that is stuck while its client goes on renewing keeps others out for
// ever. 0, the default, is no bound. A negative d is an error.
func MaxHold(d time.Duration) Option { return option(func(s *settings) { s.Terms.MaxHold = d }) }

// ProgressEvery makes the lease end, as lost, when its holder has not called Lease.Progress for
// d, even if renewals succeed. Others get the name when the holder releases the lease, or one
// TTL later. 0, the default, asks for no progress. A negative d is an error.
func ProgressEvery(d time.Duration) Option {
	return option(func(s *settings) { s.Terms.Progress = d })
}

// MinHold makes the client keep the name from others until d after the grant, even if the
// lease is released before that. A short job then does not run again on a machine whose clock is
// late by less than d. Release still ends the lease for its holder, and returns at once. The
// client goes on renewing it, even with NoRenew, gives it back when d is over, and then calls
// Observer.Released.
//
// Close makes the store keep the name for what is left of d, or for the MaxTTL of the store if
// that is shorter; Close returns an error then. A store whose leases end with the process or its
// session cannot do that: Close releases the lease. If the process ends without Close, the name
// stays taken for what is left of the TTL. MinHold ends when the lease is lost or broken.
//
// 0, the default, is no MinHold. A d that is negative, or longer than MaxHold or the MaxTTL of
// the store, is an error. AcquireAll counts d from the grant of each name.
func MinHold(d time.Duration) Option { return option(func(s *settings) { s.Terms.MinHold = d }) }

// KeepIdle makes the client keep the grant of the store for up to d after Release, for its next
// call for the same name, which then needs no request. Release still ends the lease for its
// holder, and returns at once. When another client wants the name, the store tells this one,
// which gives the grant back.
//
// Exclusion does not depend on that message. A kept grant is not renewed. It is used again, with
// the next token, while more than half of its TTL is left, for at most a TTL after the grant,
// and by a call with the same Why and no longer TTL; otherwise the client gives it back and asks
// the store. If the message is lost or the process stops, others wait for at most one TTL, as
// for a holder that has crashed. The first lease of a new client may not be kept, as the client
// does not hear messages yet.
//
// TryAcquire of another client asks again for some time before it returns ErrHeld because of a
// grant that may be kept: for a tenth of a second and four requests, 1.1 s at most. Programs
// that lock the same key without pawl may find it held for up to d.
//
// 0, the default, keeps nothing. A negative d, and KeepIdle with Shared, Slots or MinHold, are
// errors. The error wraps errors.ErrUnsupported if the store does not tell holders that others
// want the name, or its leases do not expire.
func KeepIdle(d time.Duration) Option { return option(func(s *settings) { s.Terms.Idle = d }) }

// Why says what the lease is for, in the words of its holder. Others read it when they find the
// name held. The default is empty. More than 512 bytes are an error.
func Why(text string) Option { return option(func(s *settings) { s.Terms.Why = text }) }

// Shared asks for a lease that is held together with other shared ones, as by readers. It
// excludes exclusive leases and slots. If the store serves waiters in order, readers that keep
// coming do not starve a writer. By default leases are exclusive. Shared together with Slots is
// an error. The error wraps errors.ErrUnsupported if the store has no shared leases; see
// Guarantees.
func Shared() Option { return option(func(s *settings) { s.shared = true }) }

// Slots asks for one of n leases that may be held on the name at a time. All callers that use the
// name must give the same n: the call returns a *SlotsError while the name is held with another
// number. By default leases are exclusive. An n below 1 is an error. The error wraps
// errors.ErrUnsupported if the store has no slots; see Guarantees.
func Slots(n int) Option { return option(func(s *settings) { s.slots, s.hasSlots = n, true }) }

// Reentrant lets a holder acquire what it holds already. If the context of the call was made
// by Context of a lease on the same name, the call returns that lease with one more hold, at
// once. The lease is given back when Release was called as often. Of the other options only the
// kind counts then: the call returns an error if the kind of the lease does not serve it. By
// default such a call returns ErrHeld.
//
// The context identifies the holder. Goroutines that share it are one holder and do not
// exclude each other. A function that does not pass it on is another holder, and waits; a
// second Client waits for the first, and returns ErrDeadlock. Call Release once for each call,
// in any order: one call too many takes away a hold that other code relies on. A loss ends all
// holds. After the end of the lease, a call under its context returns the error of the context.
func Reentrant() Option { return option(func(s *settings) { s.Reentrant = true }) }

// Holding says that the caller holds a lease that is not in the context of the call, such as
// a lease of its parent process. Acquire then finds deadlocks through that lease too. It may be
// given more than once. By default Acquire knows the leases in the context.
func Holding(name, lease string) Option {
	// Clip, because callers may use the same options again.
	return option(func(s *settings) { s.Holding = append(slices.Clip(s.Holding), driver.Hold{Name: name, Lease: lease}) })
}

// WaitInDeadlock makes Acquire wait where it would return ErrDeadlock, for example because
// another call of the cycle has a timeout. By default Acquire looks for deadlocks.
func WaitInDeadlock() Option { return option(func(s *settings) { s.InDeadlock = true }) }

// maxWhy keeps a holder's record small enough for every store.
const maxWhy = 512

func (c *Client) settings(opts []Option) (settings, error) {
	s := settings{Call: client.Call{Began: driver.Now()}}
	s.Terms.TTL = c.ttl
	if len(opts) > 0 {
		s = s.with(opts) // a method of its own, so that without options nothing escapes
	}
	s.Kind = line.Kind(s.slots)
	if s.shared {
		s.Kind = line.Shared
	}
	return s, c.check(&s)
}

func (s settings) with(opts []Option) settings {
	for _, o := range opts {
		if o != nil {
			o.apply(&s)
		}
	}
	return s
}

// check returns an error if settings are out of range or do not go together, or if the store lacks what they ask for.
func (c *Client) check(s *settings) error {
	t, caps := &s.Terms, c.core.Participant().Caps()
	if err := checkTTL(t.TTL); err != nil {
		return err
	}
	for _, o := range []struct {
		name string
		d    time.Duration
	}{{"MaxHold", t.MaxHold}, {"MinHold", t.MinHold}, {"KeepIdle", t.Idle}, {"ProgressEvery", t.Progress}} {
		if o.d < 0 {
			return fmt.Errorf("%s %v is negative: use a positive duration, or leave it out", o.name, o.d)
		}
	}
	if t.MaxHold > 0 && t.MinHold > t.MaxHold {
		return fmt.Errorf("MinHold %v is longer than MaxHold %v, which ends the lease: use a shorter MinHold or a longer MaxHold", t.MinHold, t.MaxHold)
	}
	if len(t.Why) > maxWhy {
		return fmt.Errorf("Why has %d bytes: use at most %d", len(t.Why), maxWhy)
	}
	return s.checkKind(caps)
}

// checkKind returns an error if the kind of lease that s asks for does not exist, or not in a store with caps.
func (s *settings) checkKind(caps driver.Caps) error {
	if s.Terms.Idle > 0 {
		return s.checkIdle(caps)
	}
	switch {
	case s.shared && s.hasSlots:
		return fmt.Errorf("Shared and Slots(%d) together: a lease is either shared or one of the slots; leave one out", s.slots)
	case s.hasSlots && s.slots < 1:
		return fmt.Errorf("Slots(%d): use 1 or more", s.slots)
	case s.shared && !caps.Shared:
		return fmt.Errorf("this store has no shared leases: %w", errors.ErrUnsupported)
	case s.hasSlots && !caps.Slots:
		return fmt.Errorf("this store has no slots: %w", errors.ErrUnsupported)
	}
	return nil
}

// checkIdle is checkKind for KeepIdle.
func (s *settings) checkIdle(caps driver.Caps) error {
	switch {
	case s.shared || s.hasSlots:
		return errors.New("KeepIdle with Shared or Slots: only exclusive leases are kept; leave one out")
	case s.Terms.MinHold > 0:
		return errors.New("KeepIdle and MinHold together: one keeps the name from others, the other gives it to them; leave one out")
	case !caps.Keeps || !caps.Expiry:
		return fmt.Errorf("KeepIdle: this store cannot tell a holder that others want the name, or its leases do not expire; leave it out: %w", errors.ErrUnsupported)
	}
	return nil
}
