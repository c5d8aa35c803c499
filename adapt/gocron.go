// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-go/pawl"
)

// GocronLocker is a Locker of gocron v2, for gocron.WithDistributedLocker or gocron.WithDistributedJobLocker. One
// of several schedulers runs a job, and the others skip that run. L is gocron.Lock, which this package does not
// import:
//
//	gocron.WithDistributedLocker(&adapt.GocronLocker[gocron.Lock]{Locks: locks, Prefix: "billing/", MinHold: 5 * time.Second})
//
// If the store cannot be reached, every scheduler skips the run. Gocron passes the error to its listener
// AfterLockError. The error pawl.ErrHeld means that another scheduler runs the job.
//
// Gocron cannot stop a job whose lease is lost, and it ignores the error of Unlock; Report gets that error. If two
// runs at once would do harm, leave the locker out, and let the job call Client.TryAcquire and work under
// Lease.Context.
type GocronLocker[L any] struct {
	Locks *pawl.Client // acquires the leases; must be set

	// Prefix begins the lock's name; the job's name follows. By default gocron names a job after its function, and
	// two programs may both have a main.run.
	Prefix string

	// MinHold holds the name for this time from the beginning of a run, even if the run is shorter; see
	// pawl.MinHold. Without it a scheduler whose clock is late runs a short job again. MinHold should be longer
	// than the clocks differ, and shorter than the time between two runs.
	MinHold time.Duration

	// Report is called with the name of the lock if a lease was lost during its run, or could not be released. If
	// Report is nil, slog.Default() logs the error.
	Report func(name string, err error)

	Options []pawl.Option // for TryAcquire
}

// Lock tries once to get the lock of a job. It returns the errors of Client.TryAcquire. Gocron skips the run after
// any error.
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

// Unlock implements gocron.Lock. If the lease ended before, Unlock returns the reason: a part of the run was not
// under the lease.
func (r *gocronRun) Unlock(ctx context.Context) error {
	ended := r.lease.Err()
	if err := r.lease.Release(ctx); ended == nil {
		ended = err
	}
	if ended != nil {
		tell(r.report, r.name, ended)
	}
	return ended
}
