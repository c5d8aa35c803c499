// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/line"
	"github.com/pawl-go/pawl/internal/trust"
)

// DefaultTTL is the time to live of a lease unless Options or TTL say
// otherwise: how long others wait for a holder that has crashed.
const DefaultTTL = 30 * time.Second

// Options are the settings of a Client. The zero value of every field is
// useful, and a nil *Options is the same as an empty one.
type Options struct {
	// TTL is the time to live of leases; 0 means DefaultTTL. The client renews leases,
	// so TTL does not limit how long the work may take.
	TTL time.Duration

	// Holder is what other clients see of this one. New fills in its empty fields:
	// user, host, process id and the base name of the program.
	Holder Holder

	// Logger gets a line for each event that an operator may have to act on. With nil there
	// is no log: give slog.Default() to have one. Only two events go to slog.Default() then, once each: that the
	// store grants nothing for a while, as a new one on Redis may do, unless Observer.Closed is set, and
	// that it takes more than a sixth of a TTL to answer, unless Observer.Renewed is set.
	Logger *slog.Logger

	// Observer learns of every event.
	Observer Observer

	// Require says which guarantees the client needs. If the store lacks one, New
	// returns an error that wraps errors.ErrUnsupported and names what is missing.
	Require Guarantees
}

// Option is a setting of one call of Acquire, TryAcquire, Do and their kind.
type Option interface{ apply(*settings) }

// settings are the result of the options of one call.
type settings struct {
	began     driver.Instant  // of the call
	ctx       context.Context // of the call; nil if no observer wants it
	waits     bool            // a call of Acquire, which the observer was told of
	behind    *obstacle       // of a call that waits; nil if nobody traces
	ttl       time.Duration
	maxHold   time.Duration // 0: no bound
	minHold   time.Duration // 0: none
	keepIdle  time.Duration // 0: the lease is given back at once
	progress  time.Duration // 0: none has to be reported
	noRenew   bool
	why       string
	shared    bool
	slots     int // 0 unless hasSlots
	hasSlots  bool
	reentrant bool

	holding    []driver.Hold
	inDeadlock bool // wait in a deadlock
}

func (s *settings) kind() line.Kind {
	if s.shared {
		return line.Shared
	}
	return line.Kind(s.slots)
}

func (s *settings) asked() asked { return asked{s.ctx, s.kind(), s.waits, s.behind} }

func (s *settings) terms() trust.Terms {
	return trust.Terms{TTL: s.ttl, NoRenew: s.noRenew, MaxHold: s.maxHold, MinHold: s.minHold, Progress: s.progress, Idle: s.keepIdle, Why: s.why}
}

type (
	ttlOption        time.Duration
	maxHoldOption    time.Duration
	minHoldOption    time.Duration
	keepIdleOption   time.Duration
	progressOption   time.Duration
	noRenewOption    struct{}
	whyOption        string
	sharedOption     struct{}
	slotsOption      int
	reentrantOption  struct{}
	holdingOption    driver.Hold
	inDeadlockOption struct{}
)

func (o ttlOption) apply(s *settings)      { s.ttl = cmp.Or(time.Duration(o), s.ttl) }
func (o maxHoldOption) apply(s *settings)  { s.maxHold = time.Duration(o) }
func (o minHoldOption) apply(s *settings)  { s.minHold = time.Duration(o) }
func (o keepIdleOption) apply(s *settings) { s.keepIdle = time.Duration(o) }
func (o progressOption) apply(s *settings) { s.progress = time.Duration(o) }
func (noRenewOption) apply(s *settings)    { s.noRenew = true }
func (o whyOption) apply(s *settings)      { s.why = string(o) }
func (sharedOption) apply(s *settings)     { s.shared = true }
func (reentrantOption) apply(s *settings)  { s.reentrant = true }
func (o slotsOption) apply(s *settings)    { s.slots, s.hasSlots = int(o), true }
func (inDeadlockOption) apply(s *settings) { s.inDeadlock = true }

// apply copies, as the options of one call may be used for others.
func (o holdingOption) apply(s *settings) { s.holding = append(slices.Clip(s.holding), driver.Hold(o)) }

// TTL sets the time to live of this lease, instead of Options.TTL, which is what 0 means.
func TTL(d time.Duration) Option { return ttlOption(d) }

// NoRenew makes a lease of fixed length: it ends, as lost, one TTL after it was
// acquired unless Extend is called. On a store whose leases do not expire, the client
// ends it.
func NoRenew() Option { return noRenewOption{} }

// MaxHold ends the lease, as lost, when it has been held for d, even if renewals
// succeed. Without such a bound, a stuck holder whose client goes on renewing keeps
// everybody else out for ever. Zero is no bound; a negative d is an error.
func MaxHold(d time.Duration) Option { return maxHoldOption(d) }

// ProgressEvery ends the lease, as lost, when its holder has not called Lease.Progress for
// d, even if renewals succeed: the work is stuck. Others get the name when the holder
// releases the lease, or one TTL later. Zero asks for no progress; a negative d is an error.
func ProgressEvery(d time.Duration) Option { return progressOption(d) }

// Why says what the lease is for. Whoever finds the name held can read it.
func Why(text string) Option { return whyOption(text) }

// Shared asks for a lease that is held together with other shared ones, as by readers:
// it keeps out only exclusive leases and slots. Where waiters are served in order, a
// stream of readers does not keep a writer waiting. The call returns an error that
// wraps errors.ErrUnsupported if the store has no shared leases; see Guarantees.
func Shared() Option { return sharedOption{} }

// Slots asks for one of n leases that are held on the name at a time. All callers that
// use the name must give the same n: the call returns a *SlotsError while the name is
// held with another number of slots, and an error that wraps errors.ErrUnsupported if
// the store has no slots; see Guarantees.
func Slots(n int) Option { return slotsOption(n) }

// Reentrant lets a holder acquire again what it holds. If the context of the call was
// made by Context of a lease on the same name, the call returns that very lease with
// one more hold, at once. The lease is given back by the last of as many calls of
// Release. Of the other options only the kind counts then: a shared lease does not
// become exclusive, nor a slot anything else. Without Reentrant such a call returns an
// error that is ErrHeld.
//
// The context identifies the holder. Goroutines that share it are one holder and do not
// exclude each other. A function that does not pass it on is another holder, and waits;
// another Client would wait for itself, and returns ErrDeadlock. Call Release once for each
// call, in any order: one call too many takes away a hold that other code relies on. A lease
// that is lost is lost for all its holds. After the end of a lease, a call under its context
// returns that context's error.
func Reentrant() Option { return reentrantOption{} }

// Holding says that the caller holds a lease that is not in the context of the call, such as
// one of the parent process. Acquire then finds deadlocks through that lease too.
func Holding(name, lease string) Option { return holdingOption{name, lease} }

// WaitInDeadlock makes Acquire wait where it would return ErrDeadlock, for example because
// another call of the cycle has a timeout.
func WaitInDeadlock() Option { return inDeadlockOption{} }

// maxWhy keeps a holder's record small enough for every store.
const maxWhy = 512

func (c *Client) settings(opts []Option) (settings, error) {
	s := settings{began: driver.Now(), ttl: c.ttl}
	if len(opts) > 0 {
		s = s.with(opts) // out of line: without options nothing escapes
	}
	if err := checkTTL(s.ttl); err != nil {
		return s, err
	}
	if s.maxHold < 0 {
		return s, fmt.Errorf("MaxHold %v is negative: use a positive duration, or leave it out", s.maxHold)
	}
	if err := s.checkMinHold(); err != nil {
		return s, err
	}
	if err := c.checkKeepIdle(s); err != nil {
		return s, err
	}
	if s.progress < 0 {
		return s, fmt.Errorf("ProgressEvery %v is negative: use a positive duration, or leave it out", s.progress)
	}
	if len(s.why) > maxWhy {
		return s, fmt.Errorf("Why has %d bytes: use at most %d", len(s.why), maxWhy)
	}
	return s, c.checkKind(s)
}

// checkKind returns an error if s asks for a kind of lease that makes no sense or
// that the store does not have.
func (c *Client) checkKind(s settings) error {
	switch {
	case !s.shared && !s.hasSlots:
		return nil
	case s.shared && s.hasSlots:
		return fmt.Errorf("Shared and Slots(%d) together: a lease is either shared or one of the slots; leave one out", s.slots)
	case s.hasSlots && s.slots < 1:
		return fmt.Errorf("Slots(%d): use 1 or more", s.slots)
	case s.shared && !c.guarantees.Shared:
		return fmt.Errorf("this store has no shared leases: %w", errors.ErrUnsupported)
	case s.hasSlots && !c.guarantees.Slots:
		return fmt.Errorf("this store has no slots: %w", errors.ErrUnsupported)
	}
	return nil
}

func (s settings) with(opts []Option) settings {
	for _, o := range opts {
		if o != nil {
			o.apply(&s)
		}
	}
	return s
}

func checkTTL(ttl time.Duration) error {
	if ttl < driver.MinTTL {
		return fmt.Errorf("TTL %v is too short: use at least %v; 10s to 60s suits most work", ttl, driver.MinTTL)
	}
	return nil
}

// process is the holder that every client of this process starts from. Looking up the
// user can read files, so it is done once.
var process = sync.OnceValue(func() Holder {
	h := Holder{PID: os.Getpid(), Space: driver.PIDSpace(), Command: filepath.Base(os.Args[0])}
	h.Host, _ = os.Hostname()
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	return h
})

func fillHolder(h Holder) *Holder {
	p := process()
	h.User = cmp.Or(h.User, p.User)
	h.Host = cmp.Or(h.Host, p.Host)
	h.Command = cmp.Or(h.Command, p.Command)
	h.PID = cmp.Or(h.PID, p.PID)
	if h.Host == p.Host {
		h.Space = cmp.Or(h.Space, p.Space)
	}
	return &h
}
