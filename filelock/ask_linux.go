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
	case req.Slots > 0: // refuse fails if the name is held in another number of slots
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

// look tries to get the lock if the waiter is the head of the queue. It makes the waiter look again when the
// waiter before it has gone, or one of the holders that keep the head out.
//
// The head also tries when somebody seems to be in the way. For example, a child of the last holder may have kept
// the FIFO but not the flock, or a holder may have become one that the head can join.
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
		// The ticket is removed after the hold is visible, so the next waiter wakes and sees a holder.
		p.end()
		return h.answer(), nil
	case err != errBusy:
		return ans, trouble(err)
	case len(ws) == 0:
		// This lasts a moment while the kernel closes the files of a killed process one by one. It may last long
		// if flock(1) has the flock, or if a cleaner has removed the FIFO.
		ans.Free = 0
	}
	return ans, nil
}

// trouble returns err as the failure of a waiter that has a place in the queue. A waiter keeps its place through
// errors that may pass, such as a lack of file descriptors.
func trouble(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return &driver.Failure{Err: storekit.OfKind(driver.ErrRefused, err), Maybe: true, Silent: true}
	}
	return &driver.Failure{Err: err, Maybe: true, Lasting: true}
}

// follows reports whether the waiter waits for another waiter that lives and can take the lock.
func (p *place) follows() bool {
	if len(p.watched) != 1 || p.watched[0].of == (ticket{}) {
		return false
	}
	of := p.watched[0].of
	here, _ := present(p.queue.path(of))
	return here && !of.stopped()
}

// follow makes the waiter look again when one of ws has gone. It ends the earlier watches.
func (p *place) follow(req *driver.Request, ws ...*watch) {
	closeAll(p.watched)
	p.watched = ws
	for _, w := range ws {
		w.whenGone(func() { p.store.tell(driver.Event{Kind: driver.Look, Name: req.Name, Lease: req.Lease}) })
	}
}
