// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/nested"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
)

// Acquire waits for the lease as long as the user allows, or until a signal.
func (s *Session) Acquire() (*pawl.Lease, error) {
	s.waiting.Store(true)
	defer s.waiting.Store(false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.checkNested(ctx); err != nil {
		return nil, err
	}
	results := make(chan result, 1)
	go func() {
		lease, err := s.ask(ctx)
		results <- result{lease, err}
	}()
	l := newLookout(s)
	defer l.next.Stop()
	for {
		select {
		case res := <-results:
			if res.err != nil {
				return nil, s.refused(res.err)
			}
			return res.lease, nil
		case sig := <-s.Signals:
			end := s.Signalled(sig)
			if end == nil {
				continue
			}
			cancel()
			// The store may have granted the lease just before cancel.
			if res := <-results; res.lease != nil {
				_ = res.lease.Release(ctx)
			}
			return nil, end
		case <-l.next.C:
			l.begin(ctx)
		case <-l.news:
			go l.look(ctx, true)
		case n := <-l.notices:
			l.tell(n)
		}
	}
}

// result is what the client has returned.
type result struct {
	lease *pawl.Lease
	err   error
}

// lookout looks at the lock during a wait, and prints changes.
type lookout struct {
	*Session
	next    *time.Timer     // for the next look
	news    <-chan struct{} // Session.news, once the first look has begun
	notices chan waiting.Notice
	watch   waiting.Outage
}

func newLookout(s *Session) *lookout {
	next := time.NewTimer(waiting.Patience)
	if s.Wait.For == 0 {
		next.Stop() // the user does not wait, so there is nothing to tell
	}
	return &lookout{Session: s, next: next, notices: make(chan waiting.Notice, 1),
		watch: waiting.Outage{Servers: s.Store.Guarantees().Expiry}}
}

// begin starts a look in a goroutine. The result of the first look is always printed, so the news
// before it needs no other look.
func (l *lookout) begin(ctx context.Context) {
	first := l.news == nil
	if first && len(l.Session.news) > 0 {
		<-l.Session.news
	}
	l.news = l.Session.news
	go l.look(ctx, first)
}

// look asks the store, which may be slow, and sends the notice to l.notices.
func (l *lookout) look(ctx context.Context, tell bool) {
	n := l.Session.look(ctx)
	n.Tell = tell
	l.notices <- n
}

// tell prints a notice that has news, and schedules the next look. A store without a server is looked at
// once.
func (l *lookout) tell(n waiting.Notice) {
	l.Known = l.Known || n.Info != nil
	if l.watch.Told(&n, time.Now()) && !n.Mine(l.pid()) {
		l.announce(n)
	}
	if l.watch.Servers {
		l.next.Reset(n.Pace())
	}
}

// checkNested returns an error if the lock is held by a pawl run that has started this process: the wait would
// never end.
func (s *Session) checkNested(ctx context.Context) error {
	if len(nested.Held()) == 0 {
		return nil
	}
	return nested.Surrounding(s.look(ctx).Info, "pawl "+s.Verb)
}

func (s *Session) ask(ctx context.Context) (*pawl.Lease, error) {
	opts := []pawl.Option{pawl.Why(s.Why), pawl.MaxHold(s.MaxHold)}
	for _, h := range nested.Held() {
		opts = append(opts, pawl.Holding(h.Name, h.Lease))
	}
	if s.InDeadlock {
		opts = append(opts, pawl.WaitInDeadlock())
	}
	if s.Shared {
		opts = append(opts, pawl.Shared())
	}
	if s.Apart {
		opts = append(opts, pawl.NoRenew()) // so that the store grants the lease for the whole TTL
	}
	if s.Slots > 0 {
		opts = append(opts, pawl.Slots(s.Slots))
	}
	if s.Wait.For == 0 {
		return s.Store.TryAcquire(ctx, s.Name, opts...)
	}
	if s.Wait.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Wait.For)
		defer cancel()
	}
	for {
		lease, err := s.Store.Acquire(ctx, s.Name, opts...)
		if err != nil || s.longEnough(ctx, lease) {
			return lease, err
		}
		_ = lease.Release(ctx) // it cannot be renewed: wait again, or learn why
	}
}

// longEnough reports whether the lease lasts long enough to stop a command in order. A claim from a hand-off
// may end within a second, so longEnough renews a short lease.
func (s *Session) longEnough(ctx context.Context, lease *pawl.Lease) bool {
	d := lease.Deadline()
	return d.IsZero() || time.Until(d) > s.TTL/2 || lease.Extend(ctx, s.TTL) == nil
}

// refused returns the failure for an error of ask.
func (s *Session) refused(err error) error {
	show := "see: " + s.Store.Show(s.Name)
	var held *pawl.HeldError
	var closed *pawl.ClosedError
	var dead *pawl.DeadlockError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return s.inVain(err)
	case errors.As(err, &closed):
		return s.closedFailure(closed.Left, "")
	case errors.As(err, &dead):
		return exit.Fail(exit.Busy, fmt.Sprintf("%q: %v", s.Name, dead), "take these locks in the same order everywhere, or use --wait-in-deadlock to wait anyway")
	case errors.As(err, &held):
		if s.canWait {
			show = "wait for it with --wait 5m, or " + show
		}
		return exit.Fail(exit.Busy, fmt.Sprintf("%q: %s", s.Name, display.HeldBy(held.Info)), show)
	}
	return exit.OfStore(err, s.Store.URL.String())
}

// inVain returns the failure for a wait that has timed out.
func (s *Session) inVain(err error) error {
	waited := fmt.Sprintf("not free after %v; ", s.Wait.For)
	if s.quarantine() > 0 {
		return s.closedFailure(s.quarantine(), waited)
	}
	n := s.look(context.Background())
	if n.Failed != nil {
		return exit.Fail(exit.Unavailable, fmt.Sprintf("%q: %s%s", s.Name, waited, n.Silence(s.Store.URL)), "check the server and the network")
	}
	text := fmt.Sprintf("%q: %s", s.Name, strings.TrimSuffix(waited, "; "))
	if held := new(pawl.HeldError); errors.As(err, &held) {
		text += "; " + display.HeldBy(held.Info)
	} else if n.Info != nil && len(n.Info.Holders) > 0 {
		text += "; " + display.HeldBy(n.Info)
	}
	return exit.Fail(exit.Busy, text, "wait longer, or see: "+s.Store.Show(s.Name))
}

func (s *Session) closedFailure(left time.Duration, before string) error {
	return exit.Fail(exit.Unavailable, fmt.Sprintf("%q: %s%s: leases that it may have forgotten have to end first", s.Name, before, waiting.ClosedFor(left)),
		fmt.Sprintf("wait with --wait %v, or, if nobody can hold a lock, see: pawl bless --help", (left+time.Minute-1).Truncate(time.Minute)))
}

func (s *Session) look(ctx context.Context) waiting.Notice {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	n := waiting.Notice{Ahead: -1, Quarantine: s.quarantine(), Began: time.Now()}
	info, err := s.Store.Inspect(ctx, s.Name)
	switch {
	case err == nil:
		n.Info = info
		if s.Store.Guarantees().FIFO { // without FIFO, a place in the queue means nothing
			n.Ahead = waiting.Place(info, s.pid())
		}
	case errors.Is(err, pawl.ErrUnavailable), errors.Is(err, pawl.ErrDenied), errors.Is(err, context.DeadlineExceeded):
		n.Failed = err
	}
	return n
}

func (s *Session) announce(n waiting.Notice) {
	e := Event{Event: "waiting", Closed: n.Quarantine.Round(time.Millisecond).Seconds()}
	if n.Ahead >= 0 {
		e.Ahead = &n.Ahead
	}
	if n.Info != nil {
		e.Holders = report.LockOf(n.Info).Holders
	}
	if n.Failed != nil {
		e.Unanswered, e.Error = n.Away.Round(time.Millisecond).Seconds(), n.Failed.Error()
	}
	s.Tell(e)
	s.Note(n.Line(s.Name, s.Store.URL))
}
