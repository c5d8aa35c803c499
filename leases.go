// SPDX-License-Identifier: Apache-2.0

package pawl

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/client"
)

// Leases are leases on several names that begin and end together. When one is lost, all are,
// for the same reason, and the client releases them. The methods are safe for concurrent use.
// The zero Leases have ended.
type Leases struct {
	names  []string        // sorted
	leases []*Lease        // on these names
	ctx    context.Context // ends with the first of them
	cancel context.CancelFunc

	releasing atomic.Bool
	back      chan struct{} // closed when all have been released, with relErr
	relErr    error
}

// AcquireAll waits until it has a lease on each of names, as Acquire does. It holds none if it
// returns an error. The options apply to each lease; MaxHold counts from the last grant. A name
// that is given twice counts once.
//
// AcquireAll acquires the names in sorted order, so callers whose names overlap cannot deadlock,
// if each gets all its names in one call. If a lease is lost while AcquireAll waits for the next,
// it releases the others and begins anew. A lease that the caller held before, see Reentrant,
// loses one hold when the others end.
//
// It returns the errors of Acquire. It also returns an error if names is empty, with KeepIdle, and
// with NoRenew and ProgressEvery, which would end the leases one by one.
func (c *Client) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Leases, error) {
	ctx = present(ctx)
	if err := c.core.Reach(ctx); err != nil {
		return nil, c.opError(ctx, "acquire", "", err)
	}
	sorted, opts, maxHold, err := c.several(names, opts)
	if err != nil {
		return nil, &Error{Op: "acquire", Err: err}
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		g, lost, err := all(ctx, c.Acquire, sorted, opts, maxHold)
		switch {
		case err == nil:
			return g, nil
		case ctx.Err() != nil && !errors.Is(err, ctx.Err()): // err is the loss of a lease
			return nil, &Error{Op: "acquire", Err: client.GaveUp(ctx, nil)}
		case ctx.Err() != nil, !lost, c.core.IsClosed():
			return nil, err
		}
		select { // pause, so that a client that broke a lease can get the name
		case <-time.After(pause/2 + c.core.Spread(pause/2)):
		case <-ctx.Done():
		}
	}
}

// several checks the arguments of a call for several names. It returns the names in order, the options
// without MaxHold, and MaxHold, which counts only when all are held.
func (c *Client) several(names []string, opts []Option) (sorted []string, until []Option, maxHold time.Duration, err error) {
	set, err := c.settings(opts)
	switch {
	case err != nil:
	case len(names) == 0:
		err = errors.New("no names: give at least one")
	case set.Terms.NoRenew:
		err = errors.New("NoRenew would end the leases one by one: leave it out, or use MaxHold")
	case set.Terms.Idle > 0:
		err = errors.New("KeepIdle keeps leases on single names: leave it out, or use Acquire")
	case set.Terms.Progress > 0:
		err = errors.New("ProgressEvery would end leases while the next one is waited for: leave it out, or use MaxHold")
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), append(slices.Clip(opts), MaxHold(0)), set.Terms.MaxHold, err
}

// TryAcquireAll asks once for a lease on each of names, and does not wait. If one of them is
// held, or TryAcquire fails for another reason, it returns the error of TryAcquire and holds
// none. Otherwise it is like AcquireAll.
func (c *Client) TryAcquireAll(ctx context.Context, names []string, opts ...Option) (*Leases, error) {
	ctx = present(ctx)
	if err := c.core.Ready(ctx); err != nil {
		return nil, c.opError(ctx, "try", "", err)
	}
	sorted, opts, maxHold, err := c.several(names, opts)
	if err != nil {
		return nil, &Error{Op: "try", Err: err}
	}
	g, _, err := all(ctx, c.TryAcquire, sorted, opts, maxHold)
	return g, err
}

// all gets all leases, one after the other, each under a context that ends with the leases before it. If it fails,
// it gives them back, and lost says that one of them had ended.
func all(ctx context.Context, one acquireOne, names []string, opts []Option, maxHold time.Duration) (g *Leases, lost bool, err error) {
	g = &Leases{names: names, back: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(ctx)
	for _, name := range names {
		l, err := one(g.ctx, name, opts...)
		if err != nil {
			lost = g.ctx.Err() != nil
			for _, l := range g.own() {
				l.inner().Forgo() // some leases are missing, so no work was done
			}
			_ = g.Release(ctx) // if the store does not answer, the client repeats the request
			return nil, lost, err
		}
		g.leases = append(g.leases, l)
		g.nest(l)
	}
	g.tie(maxHold)
	return g, false, nil
}

// nest makes g.ctx end with l too.
func (g *Leases) nest(l *Lease) {
	ctx, cancel := l.Context(g.ctx)
	outer := g.cancel
	g.ctx, g.cancel = ctx, func() { cancel(); outer() }
}

// tie makes all leases end when one ends. From then on g.ctx does not end with the
// context of the waiting call.
func (g *Leases) tie(maxHold time.Duration) {
	g.cancel()
	g.ctx, g.cancel = g.Context(context.Background())
	own := g.own()
	if maxHold > 0 {
		limit := driver.Now().Add(maxHold)
		for _, l := range own {
			l.inner().LimitTo(limit)
		}
	}
	context.AfterFunc(g.ctx, func() {
		// Lose all leases before the first is given back, so that each context reports
		// the loss and not a release.
		var lost *driver.LostError
		if errors.As(g.Err(), &lost) {
			for _, l := range own {
				l.inner().Lose(lost)
			}
		}
		_ = g.Release(context.Background())
	})
}

// Names returns the names that the leases are on, sorted.
func (g *Leases) Names() []string { return slices.Clone(g.names) }

// Lease returns the lease on name, for its token, or nil if there is none. Its Release ends all
// leases.
func (g *Leases) Lease(name string) *Lease {
	if i := slices.Index(g.names, name); i >= 0 {
		return g.leases[i]
	}
	return nil
}

// Done returns a channel that is closed when the leases have ended.
func (g *Leases) Done() <-chan struct{} {
	if g.ctx == nil {
		return empty.Done()
	}
	return g.ctx.Done()
}

// Err returns nil while all leases are held. After that it returns why they have ended: the error
// of the lease that was lost, or ErrReleased. It looks at the clock, as Lease.Err does.
func (g *Leases) Err() error {
	if g.ctx == nil {
		return errEmpty
	}
	var first error
	for _, l := range g.leases {
		err := l.Err()
		if errors.Is(err, ErrLost) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Deadline returns the earliest deadline of the leases, or the zero time if none ends by itself.
func (g *Leases) Deadline() time.Time {
	var first time.Time
	for _, l := range g.leases {
		if d := l.Deadline(); first.IsZero() || !d.IsZero() && d.Before(first) {
			first = d
		}
	}
	return first
}

// Context returns a copy of parent that also ends with the leases, as
// Lease.Context does.
func (g *Leases) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if g.ctx == nil {
		return new(Lease).Context(parent)
	}
	n := Leases{ctx: present(parent), cancel: func() {}}
	for _, l := range g.leases {
		n.nest(l)
	}
	return n.ctx, n.cancel
}

// Release gives all leases back at the same time, as Lease.Release does, and returns their errors joined. It takes at
// most five seconds, however many leases there are: the client gives back in the background what a slow store has not
// answered by then. A second call waits for the first and returns the same.
func (g *Leases) Release(ctx context.Context) error {
	if g.ctx == nil {
		return errEmpty
	}
	if g.releasing.Swap(true) {
		<-g.back
		return g.relErr
	}
	defer close(g.back) // deferred, in case a store panics
	defer g.cancel()
	errs := make([]error, len(g.leases))
	var all sync.WaitGroup
	for i, l := range g.leases { // at once: a part of the store that hangs delays only its own leases
		all.Go(func() { errs[i] = l.Release(ctx) })
	}
	all.Wait()
	g.relErr = client.Only(errors.Join(errs...))
	return g.relErr
}

// own returns the leases without those that the caller held before, see Reentrant.
func (g *Leases) own() []*Lease {
	return slices.DeleteFunc(slices.Clone(g.leases), func(l *Lease) bool { return l.Holds() != 1 })
}
