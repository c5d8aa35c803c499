// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/memlock"
)

// TestTold: what a store reports while the lease is held is told to programs and to people.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		tell        func(*Session)
		event, want string
	}{
		{func(s *Session) { s.observer().Stepped(pawl.Event{Server: "redis://host", Step: time.Hour}) }, "clock", "the clock of redis://host was set forward by 1h0m0s: locks may have ended early"},
		{func(s *Session) { s.observer().Stepped(pawl.Event{Server: "redis://host", Step: -time.Minute}) }, "clock", "the clock of redis://host was set back by 1m0s: locks of crashed holders last"},
		{func(s *Session) { s.observer().Silent(pawl.Event{Server: "redis://host", Waited: 12 * time.Second}) }, "silent", "redis://host does not answer; silent for 12s"},
		{func(s *Session) {
			s.observer().Refused(pawl.Event{Err: fmt.Errorf("%w: OOM: give it more memory", pawl.ErrUnavailable)})
		}, "refused", "the store refuses requests: OOM: give it more memory"},
	} {
		said, told := new(lines), new(lines)
		s := &Session{Args: &Args{App: &cli.App{Stderr: said}, Name: "x"}, events: newEvents(told)}
		c.tell(s)
		s.events.close()
		if !strings.Contains(told.String(), `"event":"`+c.event+`"`) || !strings.Contains(told.String(), c.want) {
			t.Errorf("the event is %s; want %s %q", told, c.event, c.want)
		}
		if !written(func() bool { return strings.HasPrefix(said.String(), "pawl: warning: "+c.want) }) {
			t.Errorf("stderr is %q; want %q", said, c.want)
		}
	}
}

// TestNoWaitIsNotTold: a store that takes its time to answer does not make --no-wait a wait.
func TestNoWaitIsNotTold(t *testing.T) {
	for wait, want := range map[time.Duration]int{0: 0, time.Minute: 1, -1: 1} {
		synctest.Test(t, func(t *testing.T) {
			c, err := memlock.Open(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			l := newLookout(&Session{Args: &Args{Wait: cli.Wait{For: wait}}, Store: &stores.Store{Client: c}})
			told := 0
			select {
			case <-l.next.C:
				told++
			case <-time.After(time.Hour):
			}
			if told != want {
				t.Errorf("with --wait %v a waiter is told %d times, want %d", wait, told, want)
			}
		})
	}
}

// lines is what was written, by any goroutine.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// written waits until ok returns true: what is said is written by a goroutine.
func written(ok func() bool) bool {
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
