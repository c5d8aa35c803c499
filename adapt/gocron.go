// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-go/pawl"
)

// GocronLocker is a Locker of gocron v2, for gocron.WithDistributedLocker or
// gocron.WithDistributedJobLocker: of several schedulers with the same jobs, one
// runs a job at a time and the others skip that run. L is gocron.Lock, which this
// package does not import:
//
//	gocron.WithDistributedLocker(&adapt.GocronLocker[gocron.Lock]{Locks: locks, Prefix: "billing/", MinHold: 5 * time.Second})
//
// A run is skipped on every scheduler if the store cannot be reached. Gocron tells
// the error to its listener AfterLockError; being held by another is pawl.ErrHeld.
//
// Gocron has no way to stop a job whose lease is lost, and throws away the error of
// Unlock, so Report is told. Where two runs at once would be wrong, leave
// the locker out and have the job call Client.TryAcquire and work under
// Lease.Context.
type GocronLocker[L any] struct {
	Locks *pawl.Client // acquires the leases; must be set

	// Prefix is put before the job's name, which is that of its function unless
	// it has another: two programs have a main.run.
	Prefix string

	// MinHold keeps the name for that long from the beginning of a run, also if the
	// run takes less: see pawl.MinHold. Without it a scheduler whose clock is late runs
	// a short job once more. It should be more than the clocks differ, and less than the
	// time between two runs.
	MinHold time.Duration

	// Report is called with the name of the lock if a lease was lost before its run was
	// over, or could not be released after it. If it is nil, that is logged to
	// slog.Default().
	Report func(name string, err error)

	Options []pawl.Option // of TryAcquire
}

// Lock asks once for the lock of a job. Any error makes gocron skip the run; they
// are those of Client.TryAcquire.
func (g *GocronLocker[L]) Lock(ctx context.Context, key string) (L, error) {
	var none L
	run := &gocronRun{name: g.Prefix + key, report: g.Report}
	lock, ok := any(run).(L)
	if !ok {
		return none, fmt.Errorf("adapt: GocronLocker[%v]: its type argument must be gocron.Lock", reflect.TypeFor[L]())
	}
	lease, err := g.Locks.TryAcquire(ctx, run.name, runOptions(g.MinHold, g.Options)...)
	if err != nil {
		return none, err
	}
	run.lease = lease
	return lock, nil
}

type gocronRun struct {
	lease  *pawl.Lease
	name   string
	report func(string, error)
}

// Unlock implements gocron.Lock.
func (r *gocronRun) Unlock(ctx context.Context) error {
	err := giveBack(ctx, r.lease)
	if err != nil {
		tell(r.report, r.name, err)
	}
	return err
}
