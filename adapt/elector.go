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

// ErrNotLeader is what IsLeader returns while another leads, or nobody does.
var ErrNotLeader = errors.New("not the leader")

// Elector is an Elector of gocron v2, for gocron.WithDistributedElector: of several
// schedulers one runs all jobs, until it has gone. It serves whoever asks now and
// then whether to act.
//
//	leader := &adapt.Elector{Locks: locks, Name: "scheduler"}
//	leader.Start()
//	defer leader.Close()
//
// IsLeader is true within the trust window of the lease only, so never for two at
// a time. But it is an answer for the moment: gocron asks before a run, and has no
// way to stop a job that runs when the lead is lost. Where two runs at once would be
// wrong, have the job work under the context of Lease.
type Elector struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // of the election

	// Report is called with the error that keeps the elector from campaigning. It tries
	// again if the store could not be reached, and gives up after any other error. If
	// Report is nil, the error is logged to slog.Default().
	Report func(name string, err error)

	Options []pawl.Option // of Elect

	mu      sync.Mutex
	cancel  context.CancelFunc // nil before Start
	done    chan struct{}      // closed when the campaign has ended
	lease   *pawl.Lease        // while leading
	problem error              // why it does not stand for election
}

// Start begins to stand for election, in the background and until Close. It is
// called once.
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
		if err != nil { // or else somebody has released the lease
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

// lead ends with the lease, and with Close.
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

// IsLeader returns nil if this elector leads, by a look at the clock. Otherwise the
// error is ErrNotLeader, and also what keeps it from standing for election, if
// something does. It does not ask the store.
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

// Lease returns the lease of the leader, for its token and its context, or nil if
// this elector does not lead.
func (e *Elector) Lease() *pawl.Lease {
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	if lease == nil || lease.Err() != nil {
		return nil
	}
	return lease
}

// Close resigns and returns when the lease has been given back. It does not wait for
// jobs: stop the scheduler first. It returns the error of giving back, or why
// the elector had stopped standing for election before.
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
