// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/memlock"
)

var (
	_ gocron.Locker  = (*adapt.GocronLocker[gocron.Lock])(nil)
	_ gocron.Elector = (*adapt.Elector)(nil)
)

const patience = 30 * time.Second // how long to wait for what must happen

func open(t *testing.T, s *memlock.Store) *pawl.Client {
	t.Helper()
	locks, err := s.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

// scheduler starts a gocron scheduler with one job.
func scheduler(t *testing.T, when gocron.JobDefinition, run any, option gocron.SchedulerOption, job ...gocron.JobOption) {
	t.Helper()
	var opts []gocron.SchedulerOption
	if option != nil {
		opts = append(opts, option)
	}
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown() })
	if _, err := s.NewJob(when, gocron.NewTask(run), append(job, gocron.WithName("nightly"))...); err != nil {
		t.Fatal(err)
	}
	s.Start()
}

// Two schedulers fire at about the same time: one runs the job, the other is told
// who has it. Without the locker both run it.
func TestGocronRunsAJobOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		locked bool
		runs   int
	}{{"with the locker", true, 1}, {"without", false, 2}} {
		t.Run(c.name, func(t *testing.T) {
			var store memlock.Store
			events := make(chan error, 10) // nil: a run; or why there was none
			for range 2 {
				var option gocron.SchedulerOption
				if c.locked {
					option = gocron.WithDistributedLocker(&adapt.GocronLocker[gocron.Lock]{
						Locks: open(t, &store), Prefix: "test/", MinHold: 2 * patience,
					})
				}
				scheduler(t, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), func() { events <- nil }, option,
					gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, name string, err error) { events <- err })))
			}
			runs, held := 0, 0
			for range 2 {
				switch err := receive(t, events); {
				case err == nil:
					runs++
				case errors.Is(err, pawl.ErrHeld):
					held++
				default:
					t.Error(err)
				}
			}
			if runs != c.runs || runs+held != 2 {
				t.Errorf("%d runs and %d skipped, want %d runs", runs, held, c.runs)
			}
		})
	}
}

// Only the scheduler of the leader runs jobs; when it resigns, the other does.
func TestGocronElector(t *testing.T) {
	var store memlock.Store
	var electors [2]*adapt.Elector
	ran := make(chan int, 1000)
	for i := range electors {
		e := &adapt.Elector{Locks: open(t, &store), Name: "scheduler"}
		e.Start()
		t.Cleanup(func() { e.Close() })
		electors[i] = e
		scheduler(t, gocron.DurationJob(10*time.Millisecond), func() { ran <- i }, gocron.WithDistributedElector(e))
	}
	leader := receive(t, ran)
	for range 10 {
		if i := receive(t, ran); i != leader {
			t.Fatalf("scheduler %d ran a job while %d led", i, leader)
		}
	}
	if err := electors[leader].Close(); err != nil {
		t.Error(err)
	}
	// A run that had begun before may still end.
	for others, began := 0, time.Now(); others < 10; others++ {
		if receive(t, ran) == leader {
			others = -1
		}
		if time.Since(began) > patience {
			t.Fatalf("scheduler %d runs jobs although it has resigned", leader)
		}
	}
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing happens")
		panic("unreachable")
	}
}
