// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-go/pawl"
)

// CronJob is a job of robfig/cron v3, or of anything else that calls Run: of
// several processes with the same schedule, one runs it at a time.
//
//	c.AddJob("@daily", &adapt.CronJob{Locks: locks, Name: "report", MinHold: time.Minute, Do: report})
type CronJob struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // of the lock; one for each job

	// Do is the work. Its context ends with the lease, so that it can stop when the
	// lease is lost.
	Do func(ctx context.Context, lease *pawl.Lease) error

	// Wait makes a run wait for the holder instead of being skipped. Every process
	// then does each run, one after the other. Runs pile up if they take longer than
	// the time between them; closing the client ends those that wait.
	Wait bool

	// MinHold keeps the name for that long from the beginning of a run, also if the
	// run takes less: see pawl.MinHold. Without it a process whose clock is late runs a
	// short job once more. It should be more than the clocks differ, and less than the
	// time between two runs.
	MinHold time.Duration

	// Report is called with the error of a run that was skipped (pawl.ErrHeld if another
	// process has the lock), with the error of Do, and with the loss of the lease. If it is
	// nil, these are logged to slog.Default(), except pawl.ErrHeld.
	Report func(name string, err error)

	Options []pawl.Option // of Acquire and TryAcquire
}

// Run gets a lease and does the work. A panic in the work passes through when the
// lease has been given back.
func (j *CronJob) Run() {
	if err := j.run(context.Background()); err != nil {
		j.tell(err)
	}
}

func (j *CronJob) run(ctx context.Context) (err error) {
	acquire := j.Locks.TryAcquire
	if j.Wait {
		acquire = j.Locks.Acquire
	}
	lease, err := acquire(ctx, j.Name, runOptions(j.MinHold, j.Options)...)
	if err != nil {
		return err
	}
	defer func() {
		back := giveBack(ctx, lease)
		if err == nil {
			err = back
		} else if back != nil {
			err = fmt.Errorf("%w; %w", back, err)
		}
	}()
	working, cancel := lease.Context(ctx)
	defer cancel()
	return j.Do(working, lease)
}

func (j *CronJob) tell(err error) { tell(j.Report, j.Name, err) }

// CronWrapper returns a cron.JobWrapper that runs a job as like would, for jobs that
// exist. J is cron.Job, which this package does not import, and like has everything
// but Do:
//
//	cron.NewChain(adapt.CronWrapper[cron.Job](adapt.CronJob{Locks: locks, Name: "report"})).Then(job)
//
// Such a job cannot be stopped when the lease is lost: Report is told after it has
// run. Give every job a chain with a name of its own: in one for all, by
// cron.WithChain, they would exclude each other. CronWrapper panics if J is not an
// interface that has no method but Run.
func CronWrapper[J interface{ Run() }](like CronJob) func(J) J {
	if _, ok := any(&like).(J); !ok {
		panic(fmt.Sprintf("adapt: CronWrapper[%v]: its type argument must be cron.Job", reflect.TypeFor[J]()))
	}
	return func(inner J) J {
		job := like
		job.Do = func(context.Context, *pawl.Lease) error {
			inner.Run()
			return nil
		}
		return any(&job).(J)
	}
}
