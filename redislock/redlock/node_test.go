// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodemodel"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// master is a node in memory, for tests in fake time, and faults on the way to it.
type master struct {
	*nodemodel.Model
	addr   string
	maxTTL time.Duration

	mu     sync.Mutex
	run    int
	id     string // of the run, if not "", in place of one of its own
	calls  int
	inside int // requests that have not returned
	most   int // and how many that were at once

	tells []func(nodewire.Message)

	// fault says what happens to a request; nil is a network without faults, in
	// which a request takes no time.
	fault func(op string) fault
}

// fault is what happens to one request.
type fault struct {
	before, after time.Duration // delays of the request and of the reply
	refused       bool          // the connection is refused
	no            error         // the node refuses the request
	lost, silent  bool          // the request, the reply is lost
	deaf          bool          // the node does not heed contexts
}

var errRefused = fmt.Errorf("%w: connection refused", driver.ErrUnavailable)

func masters(n int) []*master {
	all := make([]*master, n)
	for i := range all {
		m := &master{addr: fmt.Sprint("node", i), maxTTL: time.Minute, run: 1}
		m.Model = &nodemodel.Model{Now: time.Now, Run: m.runID, Remember: underWay, Order: strings.Compare, Tell: func(msg nodewire.Message) {
			for _, f := range m.tells {
				f(msg)
			}
		}}
		all[i] = m
	}
	return all
}

func nodes(all []*master) []nodewire.Node {
	ns := make([]nodewire.Node, len(all))
	for i, m := range all {
		ns[i] = m
	}
	return ns
}

// carry carries one request to the master and the reply back.
func (m *master) carry(ctx context.Context, op string, step func()) error {
	m.mu.Lock()
	m.calls++
	m.inside++
	m.most = max(m.most, m.inside)
	var f fault
	if m.fault != nil {
		f = m.fault(op)
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.inside--
		m.mu.Unlock()
	}()
	if f.refused {
		return errRefused
	}
	if f.no != nil {
		return f.no
	}
	reached := make(chan struct{})
	go func() { // the request goes on although nobody waits for it any more
		time.Sleep(f.before)
		if !f.lost {
			m.mu.Lock()
			step()
			m.mu.Unlock()
		}
		time.Sleep(f.after)
		close(reached)
	}()
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-reached:
		if f.lost || f.silent {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Tell implements Node. All participants get all messages.
func (m *master) Tell(f func(nodewire.Message)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tells = append(m.tells, f)
}

// asked carries a request to the master, and its answer back. A request that nobody waits for any more may still write
// its answer, so asked reads that only if there is no error.
func asked[T any](ctx context.Context, m *master, op string, step func() T) (T, error) {
	var answer, none T
	if err := m.carry(ctx, op, func() { answer = step() }); err != nil {
		return none, err
	}
	return answer, nil
}

func (m *master) Enqueue(ctx context.Context, p nodewire.Place) (nodewire.State, error) {
	return asked(ctx, m, "enqueue", func() nodewire.State { return m.Model.Enqueue(p) })
}

func (m *master) Addr() string { return m.addr }

func (m *master) runID() string { return cmp.Or(m.id, fmt.Sprint(m.addr, ".", m.run)) }

func (m *master) Propose(ctx context.Context, p nodewire.Proposal) (nodewire.Vote, error) {
	if p.Token > nodewire.MaxToken {
		return nodewire.Vote{}, unavailable(errors.New("a token beyond 2^53"))
	}
	return asked(ctx, m, "propose", func() nodewire.Vote { return m.Model.Propose(p) })
}

func (m *master) End(ctx context.Context, e nodewire.Ending) (had, next bool, err error) {
	is, err := asked(ctx, m, "end", func() [2]bool {
		had, next := m.Model.End(e)
		return [2]bool{had, next}
	})
	return is[0], is[1], err
}

func (m *master) Read(ctx context.Context, names []string) ([]nodewire.State, error) {
	return asked(ctx, m, "read", func() []nodewire.State { return m.Model.Read(names) })
}

func (m *master) List(ctx context.Context, prefix string) ([]string, error) {
	return asked(ctx, m, "list", func() []string { return m.Model.List(prefix) })
}

func (m *master) Status(ctx context.Context) (nodewire.Status, error) {
	return asked(ctx, m, "status", func() nodewire.Status { return m.Model.Status(m.addr) })
}

func (m *master) Close() error { return nil }

// restart forgets everything, as a server without persistence does.
func (m *master) restart(quarantine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run++
	m.Forget(func(time.Time) bool { return false })
	if quarantine {
		m.Closed = time.Now().Add(m.maxTTL)
	}
}

// set sets what happens to requests.
func (m *master) set(f func(op string) fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

func setAll(all []*master, f func(op string) fault) {
	for _, m := range all {
		m.set(f)
	}
}

func always(f fault) func(string) fault { return func(string) fault { return f } }

// only is for one kind of request.
func only(op string, f fault) func(string) fault {
	return func(o string) fault {
		if o == op {
			return f
		}
		return fault{}
	}
}

// lockOf returns the exclusive lock that the master has now, or the shared one that
// ends first.
func (m *master) lockOf(name string) nodewire.Lock {
	if locks := m.stateOf(name).Locks; len(locks) > 0 {
		return locks[0]
	}
	return nodewire.Lock{}
}

// stateOf returns how the name is now.
func (m *master) stateOf(name string) nodewire.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Model.Read([]string{name})[0]
}
