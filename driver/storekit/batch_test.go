// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// counted is a batch whose requests are numbers. One that is sent by itself is answered with its number when
// the channel is closed; one of several is answered with its number plus 1000, unless it has to go by itself.
type counted struct {
	Batch[int, int]
	alone, together, calls atomic.Int64
	free                   chan struct{}
}

func counting(few int) *counted {
	c := &counted{free: make(chan struct{})}
	c.Batch = Batch[int, int]{Few: few, Most: 64, Wait: 5 * time.Millisecond,
		Alone: func(_ context.Context, q int) (int, error) {
			c.alone.Add(1)
			<-c.free
			return q, nil
		},
		Together: func(_ context.Context, all []int) (replies []Reply[int]) {
			c.calls.Add(1)
			c.together.Add(int64(len(all)))
			for _, q := range all {
				replies = append(replies, Reply[int]{Answer: q + 1000, Alone: q%7 == 0})
			}
			return replies
		},
	}
	return c
}

func (c *counted) sent() string {
	return fmt.Sprintf("%d alone, %d together in %d", c.alone.Load(), c.together.Load(), c.calls.Load())
}

func (c *counted) expect(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := c.sent(); got != want {
		t.Errorf("%s calls; want %s", got, want)
	}
}

func (c *counted) over(t *testing.T) {
	t.Helper()
	if c.flying != 0 || len(c.next) != 0 {
		t.Errorf("in the end %d calls are under way, and %d requests wait", c.flying, len(c.next))
	}
}

// TestBatch: two requests go at once, each by itself; those that come meanwhile go together, when one of these
// is answered or does not come back. None is left, whoever goes, and each has its own answer.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counting(2)
		var all sync.WaitGroup
		do := func(n int) {
			all.Go(func() {
				got, err := c.Do(t.Context(), n)
				want := n
				if n >= 10 && n%7 != 0 {
					want += 1000
				}
				if err != nil || got != want {
					t.Errorf("%d: %d, %v; want %d", n, got, err, want)
				}
			})
		}
		do(0)
		do(1)
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		all.Go(func() { // the first, which lets the others go
			_, err := c.Do(gone, 9)
			if f := driver.FailureOf(err); !errors.Is(err, context.Canceled) || f.Maybe {
				t.Errorf("a caller that goes before its request is sent: %+v", f)
			}
		})
		synctest.Wait()
		for n := 10; n < 160; n++ {
			do(n)
		}
		c.expect(t, "2 alone, 0 together in 0")
		cancel()
		time.Sleep(10 * c.Wait)                    // the two are stuck
		c.expect(t, "23 alone, 150 together in 3") // each seventh went by itself after that
		close(c.free)
		all.Wait()
		synctest.Wait()
		c.over(t)
	})
}

// TestBatchTurn: a request whose turn comes alone is sent by itself, and passes the turn on, also if its caller goes
// just then.
func TestBatchTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counting(1)
		var all sync.WaitGroup
		for n := range 2 {
			all.Go(func() { c.Do(t.Context(), n) })
			synctest.Wait()
		}
		close(c.free)
		all.Wait()
		c.expect(t, "2 alone, 0 together in 0")
		c.over(t)
	})
	m := &member[int, int]{done: make(chan struct{})}
	b := Batch[int, int]{Few: 1, Most: 2, flying: 1, next: []*member[int, int]{m}}
	b.landed()
	if !m.lone || b.leave(m) || b.flying != 0 {
		t.Errorf("a request whose turn has come and whose caller goes: %+v; %d calls are under way", m, b.flying)
	}
}

// TestBatchCutOff: a call of many goes on until the last of its callers has gone. Then the connection, which may be
// dead, is free for others.
func TestBatchCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := false, make(chan struct{})
		b := Batch[int, int]{Few: 1, Most: 64, Wait: 5 * time.Millisecond, flying: 1, // which does not come back
			Together: func(ctx context.Context, all []int) []Reply[int] {
				select {
				case <-ctx.Done():
					over = true
				case <-end:
				}
				return make([]Reply[int], len(all))
			},
		}
		var all sync.WaitGroup
		first, leaves := context.WithCancel(t.Context())
		last, goes := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, first, last} {
			all.Go(func() {
				_, err := b.Do(ctx, 0)
				if f := driver.FailureOf(err); !f.Maybe {
					t.Errorf("a caller that goes after its request was sent: %+v", f)
				}
			})
		}
		time.Sleep(2 * b.Wait) // they are sent
		leaves()
		synctest.Wait()
		if over {
			t.Error("the call is over although one of its callers waits")
		}
		goes()
		synctest.Wait()
		if !over {
			t.Error("the call goes on after all of its callers have gone")
		}
		close(end)
		all.Wait()
	})
}

// TestBatchGathers: requests that have time wait for others, whatever is answered meanwhile, but not for more than
// a call takes.
func TestBatchGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counting(0)
		var all sync.WaitGroup
		do := func(n int) { all.Go(func() { c.Do(t.Context(), n) }) }
		do(1)
		time.Sleep(c.Wait)
		c.expect(t, "1 alone, 0 together in 0")
		do(1)
		synctest.Wait()
		close(c.free) // the first is answered
		c.expect(t, "1 alone, 0 together in 0")
		time.Sleep(c.Wait)
		c.expect(t, "2 alone, 0 together in 0")
		for n := 1; n < 4; n++ {
			do(n)
			time.Sleep(c.Wait / 4)
		}
		c.expect(t, "2 alone, 0 together in 0")
		time.Sleep(c.Wait)
		c.expect(t, "2 alone, 3 together in 1")
		for range 70 {
			do(1)
		}
		c.expect(t, "2 alone, 67 together in 2")
		time.Sleep(c.Wait)
		c.expect(t, "2 alone, 73 together in 3")
		all.Wait()
		c.over(t)
	})
}
