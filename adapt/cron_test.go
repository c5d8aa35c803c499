// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
)

// job is cron.Job.
type job interface{ Run() }

func TestCronJob(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		runs, result := 0, error(nil)
		j := &adapt.CronJob{Locks: w.locks, Name: "a", Report: told.tell, Do: func(ctx context.Context, lease *pawl.Lease) error {
			runs++
			w.wantHeld(t, "a")
			if ctx.Err() != nil || lease.Token() == 0 {
				t.Errorf("context %v, token %d", ctx.Err(), lease.Token())
			}
			return result
		}}
		j.Run()
		wantIs(t, told.take(t), nil)
		w.wantFree(t, "a")

		theirs := w.take(t, "a")
		j.Run()
		wantIs(t, told.take(t), pawl.ErrHeld)
		give(t, theirs)

		w.link.Cut()
		j.Run()
		wantIs(t, told.take(t), pawl.ErrUnavailable)
		w.link.Heal()
		if runs != 1 {
			t.Errorf("%d runs, want 1", runs)
		}

		result = errors.New("disk full")
		j.Run()
		wantIs(t, told.take(t), result)
		if told.name != "a" {
			t.Errorf("Report is told %q", told.name)
		}
		w.wantFree(t, "a")

		j.MinHold = time.Minute
		j.Run()
		wantIs(t, told.take(t), result)
		w.wantHeld(t, "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantFree(t, "a")

		j.MinHold, j.Do = 0, func(context.Context, *pawl.Lease) error { panic("boom") }
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("it panics with %v", v)
				}
			}()
			j.Run()
		}()
		w.wantFree(t, "a")
	})
}

func TestCronJobStopsWhenItsLeaseIsLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		stopped := errors.New("stopped half way")
		j := &adapt.CronJob{Locks: w.locks, Name: "a", Report: told.tell, Do: func(ctx context.Context, lease *pawl.Lease) error {
			w.breakLease(t, "a")
			select {
			case <-ctx.Done():
				wantIs(t, context.Cause(ctx), pawl.ErrLost)
				return stopped
			case <-time.After(soon):
				return errors.New("it went on without the lease")
			}
		}}
		j.Run()
		wantIs(t, told.take(t), pawl.ErrLost, stopped)
		w.wantFree(t, "a")
	})
}

func TestCronJobWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		runs := 0
		j := &adapt.CronJob{Locks: w.locks, Name: "a", Wait: true, Report: told.tell,
			Do: func(context.Context, *pawl.Lease) error { runs++; return nil }}
		theirs := w.take(t, "a")
		done := make(chan struct{})
		run := func() { j.Run(); done <- struct{}{} }
		go run()
		time.Sleep(time.Hour)
		synctest.Wait()
		if runs != 0 {
			t.Error("it ran beside the holder")
		}
		give(t, theirs)
		<-done
		if runs != 1 {
			t.Errorf("%d runs, want 1", runs)
		}

		theirs = w.take(t, "a")
		go run()
		synctest.Wait()
		w.locks.Close()
		<-done
		if told.take(t) == nil || runs != 1 {
			t.Errorf("%d runs, and nothing told of a wait that the client's end has ended", runs)
		}
		give(t, theirs)
	})
}

type countingJob struct{ runs int }

func (c *countingJob) Run() { c.runs++ }

func TestCronWrapper(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var told reports
		var inner countingJob
		wrap := adapt.CronWrapper[job](adapt.CronJob{Locks: w.locks, Name: "a", Report: told.tell})
		j := wrap(&inner)
		j.Run()
		theirs := w.take(t, "a")
		j.Run()
		wantIs(t, told.take(t), pawl.ErrHeld)
		give(t, theirs)
		j.Run()
		wantIs(t, told.take(t), nil)
		if inner.runs != 2 {
			t.Errorf("%d runs, want 2", inner.runs)
		}

		wrap(jobFunc(func() { w.breakLease(t, "a") })).Run() // goes on; it cannot be stopped
		wantIs(t, told.take(t), pawl.ErrLost)

		defer func() {
			if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "must be cron.Job") {
				t.Errorf("of another type it panics with %v, want what to type instead", v)
			}
		}()
		adapt.CronWrapper[*countingJob](adapt.CronJob{})
	})
}

type jobFunc func()

func (f jobFunc) Run() { f() }

// Without Report, errors go to the log, but not that another runs the job.
func TestCronJobWithoutReport(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	inWorld(t, func(t *testing.T, w world) {
		j := &adapt.CronJob{Locks: w.locks, Name: "a", Do: func(context.Context, *pawl.Lease) error { return nil }}
		theirs := w.take(t, "a")
		j.Run()
		give(t, theirs)
		if log.Len() > 0 {
			t.Errorf("a run by another is logged: %s", &log)
		}
		w.link.Cut()
		j.Run()
		if !strings.Contains(log.String(), pawl.ErrUnavailable.Error()) {
			t.Errorf("an outage is not logged: %s", &log)
		}
	})
}
