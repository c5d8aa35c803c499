// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Ask implements driver.Store.
func (s *store) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	l, _ := leases.Load(key{s, req.Lease})
	if p, ok := l.(*place); ok {
		return p.look(ctx, req)
	}
	h, err := s.try(ctx, req)
	switch {
	case err == nil:
		return h.answer(), nil
	case err != errBusy:
		return driver.Answer{}, failed(err)
	case !req.Queue:
		return s.refuse(req)
	case req.Slots > 0: // it is not to wait if that is plainly in vain
		if _, err := s.refuse(req); err != nil {
			return driver.Answer{}, err
		}
	}
	p, err := s.join(req)
	if err != nil {
		return driver.Answer{}, failed(unavailable(err))
	}
	leases.Store(key{s, req.Lease}, p)
	return p.look(ctx, req)
}

// look tries to get the lock for the head of the queue. It sees to it that the waiter looks again when the waiter
// ahead of it has gone, or one of the holders that are in the way of the head.
//
// The head tries also if somebody seems to be in the way: a child of the last holder may have kept its FIFO and not
// the lock, and a holder may have become one that we can join.
func (p *place) look(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans := driver.Answer{Free: -1, Session: p.store}
	if p.follows() {
		ans.Rank = 1
		return ans, nil
	}
	w, err := p.ahead()
	if err != nil {
		return ans, trouble(unavailable(err))
	}
	if w != nil {
		p.follow(req, w)
		ans.Rank = 1
		return ans, nil
	}
	ws, err := p.store.inTheWay(encode(req.Name), req)
	if err != nil {
		return ans, trouble(unavailable(err))
	}
	p.follow(req, ws...)
	h, err := p.store.attempt(ctx, req, true)
	switch {
	case err == nil:
		// The ticket goes after the hold is visible: the next one in the queue wakes
		// and finds us there.
		p.end()
		return h.answer(), nil
	case err != errBusy:
		return ans, trouble(err)
	case len(ws) == 0:
		// For an instant, while the kernel closes a killed process's files one by one; or for as long as it
		// likes, when flock(1) has it or a cleaner has removed the FIFO.
		ans.Free = 0
	}
	return ans, nil
}

// trouble returns err as the failure of a waiter, which has a place in the queue. It rides out what may pass, such as a lack of
// file descriptors.
func trouble(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return &driver.Failure{Err: storekit.OfKind(driver.ErrRefused, err), Maybe: true, Silent: true}
	}
	return &driver.Failure{Err: err, Maybe: true, Lasting: true}
}

// follows reports whether the waiter waits for another one, which is there and can take the lock.
func (p *place) follows() bool {
	if len(p.watched) != 1 || p.watched[0].of == (ticket{}) {
		return false
	}
	of := p.watched[0].of
	here, _ := present(p.queue.path(of))
	return here && !of.stopped()
}

// follow makes the waiter look again when one of ws has gone.
func (p *place) follow(req *driver.Request, ws ...*watch) {
	closeAll(p.watched)
	p.watched = ws
	for _, w := range ws {
		w.whenGone(func() { p.store.tell(driver.Event{Kind: driver.Look, Name: req.Name, Lease: req.Lease}) })
	}
}
