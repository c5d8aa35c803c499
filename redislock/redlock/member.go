// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

const (
	// maxBusy bounds the requests to one node that are under way, and silentBusy those to a silent
	// one, renewals aside: more would only wait. Requests beyond the bound fail at once.
	maxBusy    = 2048 // more than package pawl renews leases at once
	silentBusy = 4

	// maxDebts bounds the endings that are owed to one node. The oldest are forgotten
	// first: their leases are the first to expire.
	maxDebts = 4096

	// endTimeout is how long a node may take to answer one ending that it is owed.
	endTimeout = time.Second

	minDebtPause = 20 * time.Millisecond
	maxDebtPause = time.Second
)

var errBusy = errors.New("the node has too many requests to answer")

// member is one node with what this participant knows of it.
type member struct {
	nodewire.Node
	d *store

	trip    atomic.Int64 // a round trip, about, in ns; 0 if not known
	ignored atomic.Bool  // it is odd, and the log has said so

	mu     sync.Mutex
	busy   int // requests under way
	owes   owing
	debts  []debt
	paying bool
	random *rand.Rand    // pay's own: a shared source would make the delays depend on the order of goroutines
	poke   chan struct{} // has room for one; the node answers again
}

// debt is an ending that the node has not confirmed. It is owed until the lock that it
// would end has expired, even if the proposal arrived late.
type debt struct {
	nodewire.Ending
	until driver.Instant
}

func (m *member) enter(timed bool) error {
	limit := m.d.timeout(m.d.ttl)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := driver.Now()
	if m.owes.silent(now, limit) && !timed && m.busy >= silentBusy {
		return unavailable(errSilent)
	}
	if m.busy >= maxBusy {
		return unavailable(errBusy)
	}
	m.busy++
	m.owes.asked(now)
	return nil
}

func (m *member) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy == 0 && !m.paying
}

// leave records that a request has ended. A node has answered also if it refuses connections.
func (m *member) leave(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy--
	var odd *oddNode
	if errors.As(err, &odd) {
		m.strange(odd)
	}
	gaveUp := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if byNode := err == nil || conn.Refused(err) != nil; byNode || errors.Is(err, driver.ErrUnavailable) && !gaveUp {
		m.owes.answered(driver.Now(), byNode, m.busy > 0)
	}
	if err == nil {
		m.ignored.Store(false)
		select {
		case m.poke <- struct{}{}:
		default:
		}
	}
}

// strange says once why the node counts as down although it answers.
func (m *member) strange(why error) {
	if !m.ignored.Swap(true) {
		m.d.logged(fmt.Errorf("%s: %w", m.Addr(), why))
	}
}

// owe makes sure that the node gets e, if it answers in time.
func (m *member) owe(e nodewire.Ending, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.debts {
		if m.debts[i].Lease == e.Lease && m.debts[i].Name == e.Name {
			m.debts[i].Bar = m.debts[i].Bar || e.Bar
			m.debts[i].News = cmp.Or(m.debts[i].News, e.News)
			return
		}
	}
	if len(m.debts) == maxDebts {
		m.debts = append(m.debts[:0], m.debts[1:]...)
	}
	m.debts = append(m.debts, debt{e, driver.Now().Add(max(2*ttl, time.Minute))})
	if !m.paying {
		m.paying = m.d.background(m.pay)
	}
}

// oldest drops the debts that are over, and returns the oldest of the others.
func (m *member) oldest() (debt, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := driver.Now()
	for len(m.debts) > 0 && m.debts[0].until <= now {
		m.debts = m.debts[1:]
	}
	m.paying = len(m.debts) > 0
	if !m.paying {
		m.debts = nil
		return debt{}, false
	}
	return m.debts[0], true
}

func (m *member) paid(d debt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owes.answered(driver.Now(), true, m.busy > 0)
	for i := range m.debts {
		if m.debts[i].Ending == d.Ending {
			m.debts = append(m.debts[:i], m.debts[i+1:]...)
			return
		}
	}
}

// later puts d behind the other debts: an ending that the node refuses, for lack of
// memory, must not hold up others that it would accept.
func (m *member) later(d debt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.debts) > 1 && m.debts[0].Ending == d.Ending {
		m.debts = append(m.debts[1:], m.debts[0])
	}
}

// pay pays the debts, one after the other, until there are none. When the driver
// is closed each has one more try, until one fails.
func (m *member) pay() {
	pause := minDebtPause
	for {
		d, ok := m.oldest()
		if !ok {
			return
		}
		closing := m.d.ctx.Err() != nil
		ctx, cancel := context.WithTimeout(m.d.base, endTimeout)
		if m.d.base.Err() != nil { // requests under way were cut off, but a node that answers still gets the endings
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), m.d.graceOf(m.d.ttl))
		}
		_, _, err := m.Node.End(ctx, d.Ending)
		cancel()
		closing = closing || err != nil && m.d.base.Err() != nil
		if err == nil {
			m.paid(d)
			pause = minDebtPause
			continue
		}
		if closing {
			m.d.logged(fmt.Errorf("%s: leases could not be released, and will expire: %w", m.Addr(), err))
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			m.later(d)
		}
		select {
		case <-time.After(pause/2 + time.Duration(m.random.Int64N(int64(pause/2)))):
		case <-m.poke:
		case <-m.d.ctx.Done():
		}
		pause = min(2*pause, maxDebtPause)
	}
}
