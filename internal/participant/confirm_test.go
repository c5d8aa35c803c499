// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// deafAtFirst is a store that answers only the nth renewal of a lease.
type deafAtFirst struct {
	*script
	mu      sync.Mutex
	answers map[string]int // n by lease
	asked   map[string]int
	now     int
	most    int // at a time
}

func (s *deafAtFirst) Renew(ctx context.Context, l driver.Ref, _ time.Duration) (driver.Renewal, error) {
	s.mu.Lock()
	s.asked[l.Lease]++
	s.now++
	s.most = max(s.most, s.now)
	answered := s.asked[l.Lease] == s.answers[l.Lease]
	s.mu.Unlock()
	if !answered {
		<-ctx.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return driver.Renewal{Since: driver.Now()}, ctx.Err()
}

// TestConfirm: after events were missed each lease is asked for until there is an answer, but not for ever; no more than so
// many at a time; and no more once the participant is stopped.
func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deafAtFirst{script: new(script), answers: map[string]int{"1": 1, "2": 3, "3": 100, "4": 1, "5": 5, "6": 1, "7": 100}, asked: make(map[string]int)}
		s.ask = func(*driver.Request) (driver.Answer, error) { return driver.Answer{Granted: true}, nil }
		p := New(s, Options{})
		for i := range 7 {
			if _, err := p.TryAcquire(t.Context(), &driver.Request{Name: "n", Lease: fmt.Sprint(i + 1), TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		p.hear(driver.Event{Kind: driver.Missed})
		time.Sleep(time.Minute)
		synctest.Wait()
		for lease, want := range map[string]int{"1": 1, "2": 3, "3": confirmTimes, "4": 1, "5": 5, "6": 1, "7": confirmTimes} {
			if n := s.asked[lease]; n != want {
				t.Errorf("lease %s was asked for %d times; want %d", lease, n, want)
			}
		}
		if s.most != askAtOnce {
			t.Errorf("%d leases were asked for at a time; want %d", s.most, askAtOnce)
		}
		clear(s.asked)
		clear(s.answers)
		p.hear(driver.Event{Kind: driver.Missed})
		time.Sleep(confirmTimeout / 2)
		p.Stop()
		if synctest.Wait(); len(s.asked) != askAtOnce {
			t.Errorf("when the participant is stopped %v were asked for", s.asked)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}
