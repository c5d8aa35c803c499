// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Queuer = (*store)(nil)

// lookEvery bounds what it costs when a waiter is not woken because the one
// before it was stopped. Tests make it shorter.
var lookEvery = 3 * time.Second

const (
	// Bounds of the head's pause when the lock is taken though nobody seems to
	// be there: for an instant while the kernel closes a killed process's files
	// one by one, and for as long as it likes when flock(1) has it or a cleaner
	// has removed the FIFO.
	minPause = 100 * time.Microsecond
	maxPause = 250 * time.Millisecond
)

// Acquire implements driver.Queuer.
func (s *store) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := s.check(ctx, req); err != nil {
		return nil, err
	}
	g, err := s.attempt(ctx, req, false)
	if err == errBusy {
		g, err = s.queueUp(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// queueUp waits, unless it is plain that it would be in vain.
func (s *store) queueUp(ctx context.Context, req *driver.Request) (*grant, error) {
	if req.Slots > 0 {
		info, _ := s.look(req.Name)
		if err := s.otherSlots(req, info); err != nil {
			return nil, err
		}
	}
	return s.wait(ctx, req)
}

// wait stands in the queue until req is granted, ctx ends, or s is closed.
func (s *store) wait(ctx context.Context, req *driver.Request) (*grant, error) {
	p, err := s.join(req)
	if err != nil {
		return nil, unavailable(err)
	}
	// The ticket goes after the hold is visible: the next one in the queue wakes
	// and finds us there.
	defer p.leave()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closed, cancel)()
	pause := minPause
	var trouble driver.Instant // when it began, or 0
	for {
		g, waited, err := s.step(waiting, req, p)
		switch {
		case waiting.Err() != nil && g == nil:
			return nil, s.usable(ctx)
		case errors.Is(err, driver.ErrUnavailable):
			// It has stood in the queue, so it rides out what may pass, such as
			// a lack of file descriptors.
			if trouble == 0 {
				trouble = driver.Now()
			} else if driver.Now().Sub(trouble) > req.TTL {
				return nil, err
			}
		case err != errBusy:
			return g, err
		default:
			trouble = 0
		}
		if waited {
			pause = minPause
			continue
		}
		sleep(waiting, pause/2+rand.N(pause))
		pause = min(2*pause, maxPause)
	}
}

// step waits for the waiter ahead, at the head of the queue for a holder, and
// if there is none tries to get the lock. It returns errBusy when it is time to
// look again; waited is false if there was nobody to wait for.
func (s *store) step(ctx context.Context, req *driver.Request, p *place) (g *grant, waited bool, err error) {
	w, err := p.ahead()
	if err != nil {
		return nil, false, unavailable(err)
	}
	if w != nil {
		defer w.close()
		for {
			err := w.gone(ctx, lookEvery+rand.N(lookEvery/2))
			if late := errors.Is(err, os.ErrDeadlineExceeded); !late || w.of.stopped() {
				return nil, true, s.lookAgain(ctx, w, err)
			}
		}
	}
	ws, err := s.inTheWay(encode(req.Name), req)
	if err != nil {
		return nil, false, unavailable(err)
	}
	defer closeAll(ws)
	if len(ws) == 0 {
		g, err := s.attempt(ctx, req, true)
		return g, false, err
	}
	for {
		// A child of the last holder may have kept its FIFO and not the lock, and a
		// holder may have become one that we can join.
		err := anyGone(ctx, ws, lookEvery+rand.N(lookEvery/2))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, true, s.lookAgain(ctx, ws[0], err)
		}
		if g, err := s.attempt(ctx, req, true); err != errBusy {
			return g, true, err
		}
	}
}

// lookAgain returns what step does after having waited with err for a result.
func (s *store) lookAgain(ctx context.Context, w *watch, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return errBusy
	}
	return unavailable(fmt.Errorf("watching %s: %w", w.f.Name(), err))
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
