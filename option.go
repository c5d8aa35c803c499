// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// DefaultTTL is the time to live of a lease unless Options or TTL say
// otherwise: how long others wait for a holder that has crashed.
const DefaultTTL = 30 * time.Second

// Options are the settings of a Client. The zero value of every field is
// useful, and a nil *Options is the same as an empty one.
type Options struct {
	// TTL is the time to live of leases; 0 means DefaultTTL. A live holder
	// renews its lease, so TTL does not limit how long one may work.
	TTL time.Duration

	// Holder is what others are shown of this client. Empty fields of it are
	// filled in: user, host, process id and the base name of the program.
	Holder Holder

	// Logger gets a line for what an operator may have to act on. Nil is silent.
	Logger *slog.Logger

	// Observer is told of every event. See there.
	Observer Observer

	// Require names guarantees without which the client is not made: New
	// then returns an error that wraps errors.ErrUnsupported and names them.
	Require Guarantees
}

// Option is a setting of one call of Acquire, TryAcquire or Do.
type Option interface{ apply(*settings) }

// settings is what the options of one call come to.
type settings struct {
	began   driver.Instant // of the call
	ttl     time.Duration
	maxHold time.Duration // 0: no bound
	noRenew bool
	why     string
}

type (
	ttlOption     time.Duration
	maxHoldOption time.Duration
	noRenewOption struct{}
	whyOption     string
)

func (o ttlOption) apply(s *settings)     { s.ttl = time.Duration(o) }
func (o maxHoldOption) apply(s *settings) { s.maxHold = time.Duration(o) }
func (noRenewOption) apply(s *settings)   { s.noRenew = true }
func (o whyOption) apply(s *settings)     { s.why = string(o) }

// TTL sets the time to live of this lease, instead of Options.TTL.
func TTL(d time.Duration) Option { return ttlOption(d) }

// NoRenew gives a lease of fixed length: it ends, as lost, one TTL after it
// was acquired unless Extend is called. On a store whose leases do not expire
// the client ends it.
func NoRenew() Option { return noRenewOption{} }

// MaxHold ends the lease, as lost, when it has been held for d, however well
// renewals go. Renewing without a bound would let one stuck holder keep
// everybody else out for ever.
func MaxHold(d time.Duration) Option { return maxHoldOption(d) }

// Why says what the lease is for. It is shown to whoever meets the lock.
func Why(text string) Option { return whyOption(text) }

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
	if len(s.why) > maxWhy {
		return s, fmt.Errorf("Why has %d bytes: use at most %d", len(s.why), maxWhy)
	}
	return s, nil
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

// process is what every client of this process says of itself. Looking up the
// user can read files, so it is done once.
var process = sync.OnceValue(func() Holder {
	h := Holder{PID: os.Getpid(), Command: filepath.Base(os.Args[0])}
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
	return &h
}
