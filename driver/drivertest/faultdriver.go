// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"os"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Driver returns the driver with faults. It implements those optional
// interfaces that the driver without faults implements, and so do its grants,
// but that every grant is a driver.Downgrader and a driver.Reserver.
func (f *Faulty) Driver() driver.Driver {
	base := faultyDriver{f}
	q, isQueuer := f.inner.(driver.Queuer)
	i, isInspector := f.inner.(driver.Inspector)
	switch {
	case isQueuer && isInspector:
		return struct {
			faultyDriver
			faultyQueuer
			faultyInspector
		}{base, faultyQueuer{f, q}, faultyInspector{f, i}}
	case isQueuer:
		return struct {
			faultyDriver
			faultyQueuer
		}{base, faultyQueuer{f, q}}
	case isInspector:
		return struct {
			faultyDriver
			faultyInspector
		}{base, faultyInspector{f, i}}
	}
	return base
}

type faultyDriver struct{ faulty *Faulty }

func (d faultyDriver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return d.faulty.acquire(ctx, TryAcquire, req, d.faulty.inner.TryAcquire)
}

func (d faultyDriver) Guarantees() driver.Guarantees { return d.faulty.inner.Guarantees() }

// Recalls implements driver.Recaller. A driver that is none says that it is not.
func (d faultyDriver) Recalls() bool {
	r, ok := d.faulty.inner.(driver.Recaller)
	return ok && r.Recalls()
}

// Close waits for the requests that are on their way.
func (d faultyDriver) Close() error {
	d.faulty.flying.Wait()
	return d.faulty.inner.Close()
}

type faultyQueuer struct {
	f     *Faulty
	inner driver.Queuer
}

func (q faultyQueuer) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	return q.f.acquire(ctx, Acquire, req, q.inner.Acquire)
}

// acquire makes an attempt. If its outcome is unknown, the grant that comes with
// the error undoes whatever the attempt does in the end, as the contract asks.
func (f *Faulty) acquire(ctx context.Context, op Op, req *driver.Request,
	do func(context.Context, *driver.Request) (driver.Grant, error)) (driver.Grant, error) {
	a := newAttempt()
	fate, err := f.call(ctx, op, req.Name, func(ctx context.Context) error {
		return a.make(ctx, req, do)
	})
	switch fate {
	case unsent:
		return nil, err
	case unknown:
		return f.grant(req.Name, a), err
	}
	if a.grant == nil {
		return nil, err
	}
	return f.grant(req.Name, a.grant), err
}

// attempt is the grant of an attempt with an unknown outcome. Like that of a
// real driver, its release goes to the store behind the request that it undoes:
// it ends what the request was granted, or takes it out of the queue.
type attempt struct {
	undone  context.Context // ends with undo
	undo    context.CancelFunc
	arrived chan struct{} // closed when the store has answered
	grant   driver.Grant  // set before; nil if the store refused
}

func newAttempt() *attempt {
	a := &attempt{arrived: make(chan struct{})}
	a.undone, a.undo = context.WithCancel(context.Background())
	return a
}

func (a *attempt) make(ctx context.Context, req *driver.Request,
	do func(context.Context, *driver.Request) (driver.Grant, error)) (err error) {
	defer close(a.arrived)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.undone, cancel)()
	a.grant, err = do(ctx, req)
	return err
}

func (a *attempt) Token() uint64         { return 0 }
func (a *attempt) Since() driver.Instant { return 0 }

func (a *attempt) Renew(context.Context, time.Duration) (driver.Instant, error) {
	return 0, driver.ErrUncertain
}

func (a *attempt) Release(ctx context.Context) error {
	a.undo()
	select {
	case <-a.arrived:
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.grant == nil {
		return nil
	}
	return a.grant.Release(ctx)
}

type faultyInspector struct {
	f     *Faulty
	inner driver.Inspector
}

func (i faultyInspector) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	var info *driver.Info // written to later if the call is given up
	fate, err := i.f.call(ctx, Inspect, name, func(ctx context.Context) (err error) {
		info, err = i.inner.Inspect(ctx, name)
		return err
	})
	if fate != answered {
		return nil, err
	}
	return info, err
}

func (i faultyInspector) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	var infos []*driver.Info // written to later if the call is given up
	fate, err := i.f.call(ctx, Inspect, prefix, func(ctx context.Context) (err error) {
		infos, err = i.inner.List(ctx, prefix)
		return err
	})
	if fate != answered {
		return nil, err
	}
	return infos, err
}

func (i faultyInspector) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	_, err := i.f.call(ctx, Break, name, func(ctx context.Context) error {
		return i.inner.Break(ctx, name, lease, by, why)
	})
	return err
}

// faultyGrant is a grant with faults.
type faultyGrant struct {
	f     *Faulty
	name  string
	inner driver.Grant
}

// inheriter is a grant that a child process can inherit.
type inheriter interface{ Files() []*os.File }

// grant puts faults before g and keeps its optional interfaces.
func (f *Faulty) grant(name string, g driver.Grant) driver.Grant {
	base := &faultyGrant{f: f, name: name, inner: g}
	n, isNotifier := g.(driver.Notifier)
	i, isInheriter := g.(inheriter)
	type notifier = faultyNotifier
	switch {
	case isNotifier && isInheriter:
		return struct {
			*faultyGrant
			notifier
			inheriter
		}{base, notifier{f, n}, i}
	case isNotifier:
		return struct {
			*faultyGrant
			notifier
		}{base, notifier{f, n}}
	case isInheriter:
		return struct {
			*faultyGrant
			inheriter
		}{base, i}
	}
	return base
}
