// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// A batch makes one call of requests of one kind that come while others are under way, as each
// call and each commit costs the server more than what it does for one free name. With few
// requests each is sent at once, by itself. Those that come after that go together as soon
// as one of these is answered, or does not come back for a while: it may be stuck behind a
// row, and a call of many waits for no row.
type batch struct {
	mu     sync.Mutex
	flying int // calls under way
	next   []*member
}

const (
	mostFlying = 2  // of the connections, of which there are 4 unless set
	mostInCall = 64 // requests
	batchWait  = 5 * time.Millisecond
)

// member is a request in a batch.
type member struct {
	args []string
	done chan struct{}

	// Set before done is closed. No row: it has to be sent by itself.
	row  [][]byte
	sent driver.Instant
	fail *failure
	lone bool // in place of a call; guarded by batch.mu before

	with *together // guarded by batch.mu; nil until sent with others
}

// together are requests in one call. It goes on until the last of their callers has gone: then
// the connection, which may be dead, is free for those that come again.
type together struct {
	here int // callers; guarded by batch.mu
	gone context.CancelFunc
}

// sender makes one call of several requests.
type sender func(ctx context.Context, all []*member)

// ask sends a request, with alone or together with others, and returns the answer.
func (c *batch) ask(ctx context.Context, args []string, alone func() ([][]byte, driver.Instant, *failure), send sender) (row [][]byte, sent driver.Instant, f *failure) {
	c.mu.Lock()
	if c.flying < mostFlying {
		c.flying++
		c.mu.Unlock()
		defer c.landed(send)
		return alone()
	}
	m := &member{args: args, done: make(chan struct{})}
	if c.next = append(c.next, m); len(c.next) == 1 {
		c.remind(send)
	}
	c.mu.Unlock()
	select {
	case <-m.done:
	case <-ctx.Done():
		return nil, 0, &failure{err: ctx.Err(), maybe: !c.leave(m, send)}
	}
	if m.lone {
		defer c.landed(send)
	}
	if m.row == nil && m.fail == nil {
		return alone()
	}
	return m.row, m.sent, m.fail
}

// leave reports whether a request was not sent, and will not be.
func (c *batch) leave(m *member, send sender) bool {
	c.mu.Lock()
	i := slices.Index(c.next, m)
	if i >= 0 {
		c.next = slices.Delete(c.next, i, i+1)
	}
	if i == 0 && len(c.next) > 0 {
		c.remind(send)
	}
	lone := m.lone // its turn came just now
	if m.with != nil {
		if m.with.here--; m.with.here == 0 {
			m.with.gone()
		}
	}
	c.mu.Unlock()
	if lone {
		c.landed(send)
	}
	return i >= 0 || lone
}

// remind lets the first that waits go after a while. c.mu is held.
func (c *batch) remind(send sender) {
	m := c.next[0]
	time.AfterFunc(batchWait, func() {
		c.mu.Lock()
		mine := len(c.next) > 0 && c.next[0] == m
		if mine {
			c.flying++
		}
		c.mu.Unlock()
		if mine {
			c.landed(send)
		}
	})
}

// landed lets the next ones go in place of a call that was answered.
func (c *batch) landed(send sender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.next[:min(len(c.next), mostInCall)]
	if c.next = c.next[len(all):]; len(c.next) > 0 {
		c.remind(send)
	}
	switch len(all) {
	case 0:
		c.flying--
	case 1:
		all[0].lone = true
		close(all[0].done)
	default:
		ctx, gone := context.WithCancel(context.Background())
		with := &together{len(all), gone}
		for _, m := range all {
			m.with = with
		}
		go func() {
			defer gone()
			send(ctx, all)
			for _, m := range all {
				close(m.done)
			}
			c.landed(send)
		}()
	}
}

// takeAll asks for free names.
func (s *store) takeAll(ctx context.Context, all []*member) {
	arg := func(i int) string { return array(all, func(m *member) string { return m.args[i] }) }
	rows, sent, f := s.boundRows(ctx, s.sql.acquireMany, s.id, arg(0), arg(1), arg(2), arg(3))
	s.answer(all, rows, sent, f)
}

// giveAll releases leases that nobody waits for.
func (s *store) giveAll(ctx context.Context, all []*member) {
	arg := func(i int) string { return array(all, func(m *member) string { return m.args[i] }) }
	rows, sent, f := s.exec(ctx, s.sql.releaseMany, arg(0), arg(1))
	s.answer(all, rows, sent, f)
}

// answer gives each its row, which has the lease at its end. What the server refuses may be
// because of one of them: then each is sent by itself.
func (s *store) answer(all []*member, rows [][][]byte, sent driver.Instant, f *failure) {
	if f != nil {
		f = s.ended(f)
	}
	of := make(map[string][][]byte, len(rows))
	for _, row := range rows {
		of[string(row[len(row)-1])] = row
	}
	for _, m := range all {
		m.sent = sent
		switch {
		case f == nil:
			m.row = of[m.args[1]]
		case !f.refused || f.drop:
			own := *f // a caller may change it
			m.fail = &own
		}
	}
}
