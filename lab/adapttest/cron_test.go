// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/memlock"
)

var (
	_ cron.Job        = (*adapt.CronJob)(nil)
	_ cron.JobWrapper = adapt.CronWrapper[cron.Job](adapt.CronJob{})
)

// once is a schedule of one run, at a time that all share, or at once if that has
// passed.
type once struct {
	at   time.Time
	done bool
}

func (o *once) Next(now time.Time) time.Time {
	if o.done {
		return time.Time{}
	}
	o.done = true
	if now.Before(o.at) {
		return o.at
	}
	return now.Add(time.Millisecond)
}

// Two processes with one schedule: one runs the job, the other skips it. Without the
// lock both run it.
func TestCronRunsAJobOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		job  func(like adapt.CronJob, run func()) cron.Job
		runs int
	}{
		{"a CronJob", func(like adapt.CronJob, run func()) cron.Job {
			like.Do = func(context.Context, *pawl.Lease) error { run(); return nil }
			return &like
		}, 1},
		{"a wrapped job", func(like adapt.CronJob, run func()) cron.Job {
			return cron.NewChain(adapt.CronWrapper[cron.Job](like)).Then(cron.FuncJob(run))
		}, 1},
		{"no lock", func(like adapt.CronJob, run func()) cron.Job { return cron.FuncJob(run) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var store memlock.Store
			events := make(chan error, 10) // nil: a run; or why there was none
			at := time.Now().Add(200 * time.Millisecond)
			for range 2 {
				crontab := cron.New()
				crontab.Schedule(&once{at: at}, c.job(adapt.CronJob{
					Locks: open(t, &store), Name: "nightly", MinHold: 2 * patience,
					Report: func(_ string, err error) { events <- err },
				}, func() { events <- nil }))
				crontab.Start()
				t.Cleanup(func() { <-crontab.Stop().Done() })
			}
			runs := 0
			for range 2 {
				switch err := receive(t, events); {
				case err == nil:
					runs++
				case !errors.Is(err, pawl.ErrHeld):
					t.Error(err)
				}
			}
			if runs != c.runs {
				t.Errorf("%d runs, want %d", runs, c.runs)
			}
		})
	}
}
