// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
)

// ErrNotLeader is the error of IsLeader if another elector leads, or none.
var ErrNotLeader = errors.New("not the leader")

// Elector is an Elector of gocron v2, for gocron.WithDistributedElector: one of several schedulers runs all jobs
// while it leads. Other code that asks at times whether to act can use it, too.
//
//	leader := &adapt.Elector{Locks: locks, Name: "scheduler"}
//	leader.Start()
//	defer leader.Close()
//
// IsLeader returns nil only within the trust window of the lease, so never in two schedulers at a time. But the
// answer is true only for that moment: gocron asks before a run, and cannot stop a job when the lead is lost. If
// two runs at once would do harm, let the job work under the context of Lease.
type Elector struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // the name of the election

	// Report is called with an error when the elector stops being a candidate. The elector tries again if the
	// store could not be reached or the lease was lost, and gives up after any other error. If Report is nil,
	// slog.Default() logs the error.
	Report func(name string, err error)

	Options []pawl.Option // for Elect

	mu      sync.Mutex
	cancel  context.CancelFunc // nil before Start
	done    chan struct{}      // closed when the campaign has ended
	lease   *pawl.Lease        // while leading
	problem error              // why the elector is not a candidate
}

// Start makes the elector a candidate, in the background, until Close. Call it once.
func (e *Elector) Start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel != nil {
		panic("adapt: Elector.Start is called twice")
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel, e.done = cancel, make(chan struct{})
	go e.campaign(ctx)
}

const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

func (e *Elector) campaign(ctx context.Context) {
	defer close(e.done)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := e.Locks.Elect(ctx, e.Name, e.lead, e.Options...)
		if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
			e.set(nil, nil)
			return
		}
		e.set(nil, err)
		if err != nil { // without an error the lease was released
			tell(e.Report, e.Name, err)
			if ctx.Err() != nil || !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, pawl.ErrLost) {
				return
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// lead runs while this elector leads. It returns when the lease ends or Close is called.
func (e *Elector) lead(ctx context.Context, lease *pawl.Lease) error {
	e.set(lease, nil)
	<-ctx.Done()
	e.set(nil, nil)
	return nil
}

func (e *Elector) set(lease *pawl.Lease, problem error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.problem = lease, problem
}

// IsLeader returns nil if this elector leads. It checks the clock, and does not ask the store. Otherwise it
// returns ErrNotLeader. If the elector is not a candidate, the error says why.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	lease, problem, started := e.lease, e.problem, e.cancel != nil
	e.mu.Unlock()
	switch {
	case !started:
		problem = errors.New("the elector was not started")
	case lease != nil:
		if problem = lease.Err(); problem == nil {
			return nil
		}
	}
	if problem != nil {
		return fmt.Errorf("adapt: %q: %w: %w", e.Name, ErrNotLeader, problem)
	}
	return fmt.Errorf("adapt: %q: %w", e.Name, ErrNotLeader)
}

// Lease returns the lease of the leader, which has the token and the context, or nil if this elector does not
// lead.
func (e *Elector) Lease() *pawl.Lease {
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	if lease == nil || lease.Err() != nil {
		return nil
	}
	return lease
}

// Close resigns, and returns when the lease has been released. It does not wait for jobs: stop the scheduler
// first. It returns the error of the release, or the error after which the elector has stopped.
func (e *Elector) Close() error {
	e.mu.Lock()
	cancel := e.cancel
	e.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.problem
}
