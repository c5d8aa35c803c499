// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-go/pawl"
)

// CronJob is a job of robfig/cron v3, or of any library that calls Run. Of several processes with the same
// schedule, one runs it at a time.
//
//	c.AddJob("@daily", &adapt.CronJob{Locks: locks, Name: "report", MinHold: time.Minute, Do: report})
type CronJob struct {
	Locks *pawl.Client // acquires the leases; must be set
	Name  string       // of the lock; one for each job

	// Do is the work. Its context ends with the lease, so the work can stop when the lease is lost.
	Do func(ctx context.Context, lease *pawl.Lease) error

	// Wait makes a run wait for the lock instead of being skipped. Every process then does each run,
	// one after the other. If runs take longer than the time between them, they pile up. Closing the
	// client ends those that wait.
	Wait bool

	// MinHold keeps the name for so long from the beginning of a run, even if the run is shorter:
	// see pawl.MinHold. Without it a process whose clock is late runs a short job again. It should
	// be more than the clocks differ, and less than the time between two runs.
	MinHold time.Duration

	// Report is called with why a run was skipped (pawl.ErrHeld if another process has the lock), with
	// the error of Do, and with the loss of the lease. If it is nil, slog.Default() logs all of these but
	// ErrHeld, which is the normal case.
	Report func(name string, err error)

	Options []pawl.Option // of Acquire and TryAcquire
}

// Run acquires a lease and does the work. If the work panics, Run releases the lease and panics
// too.
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

// CronWrapper returns a cron.JobWrapper that runs an existing job like the CronJob like, which has
// every field but Do. J is cron.Job, which this package does not import:
//
//	cron.NewChain(adapt.CronWrapper[cron.Job](adapt.CronJob{Locks: locks, Name: "report"})).Then(job)
//
// Such a job cannot be stopped when the lease is lost; Report is called when it has ended. Give every job
// its own chain with its own name: one chain for all, by cron.WithChain, would make jobs exclude each
// other. CronWrapper panics if J is not an interface with the one method Run.
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
