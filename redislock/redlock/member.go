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
	// maxBusy bounds the requests under way to one node. silentBusy bounds them while the node is
	// silent, except for renewals. Requests beyond a bound fail at once: they would only wait.
	maxBusy    = 2048 // more than package pawl renews leases at once
	silentBusy = 4

	// maxDebts bounds the endings that the client owes to one node. It drops the oldest
	// first: their leases are the first to expire.
	maxDebts = 4096

	// endTimeout is how long a node may take to answer one ending that the client owes it.
	endTimeout = time.Second

	minDebtPause = 20 * time.Millisecond
	maxDebtPause = time.Second
)

var errBusy = errors.New("the node has too many requests to answer")

// member is one node, and what this client knows about it.
type member struct {
	nodewire.Node
	d *store

	trip    atomic.Int64 // the smoothed round trip in ns; 0 if not known
	ignored atomic.Bool  // the node is odd, and the log has said so

	mu     sync.Mutex
	busy   int // requests under way
	owes   owing
	debts  []debt
	paying bool
	random *rand.Rand    // pay's own: a shared source would make the delays depend on the order of goroutines
	poke   chan struct{} // wakes pay when the node answers again; has room for one
}

// debt is an ending that the node has not confirmed. The client owes it until the lock has
// expired by itself, even a lock whose proposal arrived late.
type debt struct {
	nodewire.Ending
	until driver.Instant
}

// enter counts a request that is sent now, or returns why it cannot be sent.
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

// leave records that a request has ended. A node that refuses connections has answered, too.
func (m *member) leave(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy--
	var odd *oddNode
	if errors.As(err, &odd) {
		m.logOdd(odd)
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

// logOdd logs once why a node that answers counts as down.
func (m *member) logOdd(why error) {
	if !m.ignored.Swap(true) {
		m.d.logged(fmt.Errorf("%s: %w", m.Addr(), why))
	}
}

// owe sends e until the node confirms it, or until the lock has expired.
func (m *member) owe(e nodewire.Ending, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(debt{e, driver.Now().Add(max(2*ttl, time.Minute))})
	if !m.paying {
		m.paying = m.d.background(m.pay)
	}
}

// add puts a debt behind the others: a node without memory may refuse one ending, and that must not hold up others that
// the node would accept. The caller holds mu.
func (m *member) add(d debt) {
	for i := range m.debts {
		if e := &m.debts[i].Ending; e.Lease == d.Lease && e.Name == d.Name {
			e.Bar = e.Bar || d.Bar
			e.News = cmp.Or(e.News, d.News)
			return
		}
	}
	if len(m.debts) == maxDebts {
		m.debts = append(m.debts[:0], m.debts[1:]...)
	}
	m.debts = append(m.debts, d)
}

// tried records that a debt was paid, or adds it again.
func (m *member) tried(d debt, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.add(d)
		return
	}
	m.owes.answered(driver.Now(), true, m.busy > 0)
}

// next takes the first debt whose time is not over.
func (m *member) next() (debt, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := driver.Now()
	for len(m.debts) > 0 {
		d := m.debts[0]
		if m.debts = m.debts[1:]; d.until > now {
			return d, true
		}
	}
	m.debts, m.paying = nil, false
	return debt{}, false
}

// pay sends the endings that the client owes, one after the other, until none is left.
// After Close it tries each ending once more, and stops at the first that fails.
func (m *member) pay() {
	pause := minDebtPause
	for {
		d, ok := m.next()
		if !ok {
			return
		}
		closing := m.d.ctx.Err() != nil
		ctx, cancel := context.WithTimeout(m.d.base, endTimeout)
		if m.d.base.Err() != nil { // Close has cut off the requests under way, but a node that answers still gets the endings
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), m.d.graceOf(m.d.ttl))
		}
		_, _, err := m.Node.End(ctx, d.Ending)
		cancel()
		closing = closing || err != nil && m.d.base.Err() != nil
		if m.tried(d, err); err == nil {
			pause = minDebtPause
			continue
		}
		if closing {
			m.d.logged(fmt.Errorf("%s: leases could not be released, and will expire: %w", m.Addr(), err))
			return
		}
		select {
		case <-time.After(pause/2 + time.Duration(m.random.Int64N(int64(pause/2)))):
		case <-m.poke:
		case <-m.d.ctx.Done():
		}
		pause = min(2*pause, maxDebtPause)
	}
}
