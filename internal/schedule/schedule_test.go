// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/schedule"
)

type item = schedule.Item[int]

// woken is a schedule that notes what it wakes, and when, since it was made.
func woken() (*schedule.Schedule[int], func() (what []int, after []time.Duration)) {
	began := time.Now()
	var mu sync.Mutex
	var what []int
	var after []time.Duration
	s := schedule.New(func(i int, _ driver.Instant) {
		mu.Lock()
		defer mu.Unlock()
		what, after = append(what, i), append(after, time.Since(began))
	})
	return s, func() ([]int, []time.Duration) {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return what, after
	}
}

func TestItemsAreWokenWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, woken := woken()
		now := driver.Now()
		order := rand.Perm(1000)
		for _, i := range order {
			s.Add(&item{Of: i}, now.Add(time.Duration(i)*time.Second/100))
		}
		time.Sleep(time.Minute)
		what, after := woken()
		if len(what) != len(order) || !slices.IsSorted(what) {
			t.Fatalf("%d of %d were woken, in the order %v", len(what), len(order), what)
		}
		for n, i := range what {
			if want := time.Duration(i) * time.Second / 100; after[n] != want {
				t.Errorf("item %d was woken after %v; want %v", i, after[n], want)
			}
		}
	})
}

func TestItemIsWokenOnceUntilItIsDueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, woken := woken()
		i := &item{Of: 1}
		s.Add(i, driver.Now().Add(time.Second))
		time.Sleep(10 * time.Second)
		s.WakeAt(i, driver.Now().Add(time.Second))
		time.Sleep(10 * time.Second)
		if _, after := woken(); !slices.Equal(after, []time.Duration{time.Second, 11 * time.Second}) {
			t.Errorf("it was woken after %v", after)
		}
	})
}

func TestItemMovesForwardAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, woken := woken()
		one, two := &item{Of: 1}, &item{Of: 2}
		now := driver.Now()
		s.Add(one, now.Add(time.Second))
		s.Add(two, schedule.Never)
		s.WakeAt(one, now.Add(3*time.Second))
		s.WakeAt(two, now.Add(2*time.Second))
		time.Sleep(10 * time.Second)
		if what, after := woken(); !slices.Equal(what, []int{2, 1}) || !slices.Equal(after, []time.Duration{2 * time.Second, 3 * time.Second}) {
			t.Errorf("%v were woken after %v", what, after)
		}
	})
}

func TestRemovedItemSleepsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, woken := woken()
		one, two := &item{Of: 1}, &item{Of: 2}
		s.Add(one, driver.Now().Add(time.Second))
		s.Add(two, driver.Now().Add(time.Second))
		s.Remove(one)
		s.Remove(one)
		s.WakeAt(one, driver.Now())
		time.Sleep(10 * time.Second)
		if what, _ := woken(); !slices.Equal(what, []int{2}) {
			t.Errorf("%v were woken; want 2 alone", what)
		}
	})
}

// After a suspend of the machine, in which timers stand still, nobody is woken much too late.
func TestScheduleLooksEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := woken()
		s.Add(&item{}, driver.Now().Add(time.Hour))
		for range 10 {
			if next := s.NextLook().Sub(driver.Now()); next > time.Second {
				t.Errorf("the next look is in %v", next)
			}
			time.Sleep(1500 * time.Millisecond)
		}
		s.Stop()
	})
}

func TestWorkersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, done atomic.Int64
		w := schedule.NewWorkers(10, func(time.Duration) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			done.Add(1)
		})
		for range 95 {
			w.Add(time.Second)
		}
		began := time.Now()
		for done.Load() < 95 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if most.Load() != 10 || time.Since(began) != 10*time.Second {
			t.Errorf("%d at a time, for %v; want 10 for 10s", most.Load(), time.Since(began))
		}
	})
}

func TestWorkersKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		w := schedule.NewWorkers(1, func(i int) {
			got = append(got, i)
			time.Sleep(time.Millisecond)
		})
		let := w.Hold()
		for i := range 100 {
			w.Add(i)
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("%v have begun", got)
		}
		let()
		for i := range 100 {
			w.Add(100 + i)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		w.Close()
		if len(got) != 200 || !slices.IsSorted(got) {
			t.Errorf("done: %v", got)
		}
	})
}

func TestCloseWaitsForWhatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		w := schedule.NewWorkers(2, func(int) {
			time.Sleep(time.Second)
			done.Add(1)
		})
		for i := range 10 {
			w.Add(i)
		}
		synctest.Wait()
		w.Close()
		w.Add(11)
		time.Sleep(time.Minute)
		if done.Load() != 2 {
			t.Errorf("%d were done; want the two that had begun", done.Load())
		}
	})
}
