// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-go/pawl"
)

// CronJob is a job of robfig/cron v3, or of any library that calls Run. If several processes have the same
// schedule, one of them runs the job at a time.
//
//	c.AddJob("@daily", &adapt.CronJob{Locks: locks, Name: "report", MinHold: time.Minute, Do: report})
type CronJob struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // the name of the lock; use a different one for each job

	// Do is the work. Its context ends with the lease, so the work can stop when the lease is lost.
	Do func(ctx context.Context, lease *pawl.Lease) error

	// Wait makes a run wait for the lock. By default the run is skipped if the lock is held. With Wait every
	// process does each run, one after the other. If the runs take longer than the time between them, they pile
	// up. Closing the client ends the waiting runs.
	Wait bool

	// MinHold holds the name for this time from the beginning of a run, even if the run is shorter; see
	// pawl.MinHold. Without it a process whose clock is late runs a short job again. MinHold should be longer than
	// the clocks differ, and shorter than the time between two runs.
	MinHold time.Duration

	// Report is called with the reason why a run was skipped (pawl.ErrHeld if another process has the lock), with
	// the error of Do, and with the loss of the lease. If Report is nil, slog.Default() logs them, except ErrHeld,
	// which is the normal case.
	Report func(name string, err error)

	Options []pawl.Option // for Acquire and TryAcquire
}

// Run acquires a lease and does the work. If the work panics, Run releases the lease and panics, too.
func (j *CronJob) Run() {
	if err := j.run(context.Background()); err != nil {
		j.tell(err)
	}
}

func (j *CronJob) run(ctx context.Context) error {
	do := j.Locks.TryDo
	if j.Wait {
		do = j.Locks.Do
	}
	return do(ctx, j.Name, j.Do, runOptions(j.MinHold, j.Options)...)
}

func (j *CronJob) tell(err error) { tell(j.Report, j.Name, err) }

// CronWrapper returns a cron.JobWrapper that runs an existing job under a lock. like has the settings, without Do.
// J is cron.Job, which this package does not import:
//
//	cron.NewChain(adapt.CronWrapper[cron.Job](adapt.CronJob{Locks: locks, Name: "report"})).Then(job)
//
// Such a job cannot be stopped when the lease is lost. Report is called when the job has ended. Give every job a
// chain with a different name: with one chain for all, by cron.WithChain, the jobs would exclude each other.
// CronWrapper panics if J is not an interface with the one method Run.
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
