// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// answers makes the store answer renewal n after the time that after returns, or never if
// that is negative. It carries out what it answers at once.
func answers(d *tapped, after func(n int64) time.Duration) {
	set(d, &d.renew, func(ctx context.Context, ask func() (driver.Renewal, error)) (driver.Renewal, error) {
		wait := after(d.renewals.Load())
		if wait < 0 {
			<-ctx.Done()
			return driver.Renewal{}, ctx.Err()
		}
		since, err := ask()
		select {
		case <-time.After(wait):
			return since, err
		case <-ctx.Done():
			return driver.Renewal{}, ctx.Err()
		}
	})
}

// A lease lives as long as the store answers its renewals within a third of the TTL, and also
// if every other request is lost.
func TestLeaseLivesWhileAnswersComeWithinAThird(t *testing.T) {
	const ttl = 30 * time.Second
	for name, after := range map[string]func(n int64) time.Duration{
		"all slow": func(int64) time.Duration { return ttl/3 - time.Millisecond },
		"every other lost": func(n int64) time.Duration {
			if n%2 == 1 {
				return -1
			}
			return ttl/3 - time.Millisecond
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := tap(new(memlock.Store))
				answers(d, after)
				l := acquire(t, open(t, d, &pawl.Options{TTL: ttl}), "a")
				time.Sleep(20 * ttl)
				if err := l.Err(); err != nil {
					t.Errorf("after %d renewals: %v", d.renewals.Load(), err)
				}
				release(t, l)
			})
		})
	}
}

// The client logs once that its TTL is too short for how long the store takes to answer.
func TestLogSaysThatTheTTLIsTooShort(t *testing.T) {
	for took, want := range map[time.Duration]int{time.Second: 0, 6 * time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			d := tap(new(memlock.Store))
			answers(d, func(int64) time.Duration { return took })
			var log bytes.Buffer
			c := open(t, d, &pawl.Options{TTL: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			l := acquire(t, c, "a")
			time.Sleep(time.Minute)
			release(t, l)
			c.Close()
			synctest.Wait()
			if got := strings.Count(log.String(), "use a longer TTL"); got != want {
				t.Errorf("answers that took %v: logged %d times, want %d:\n%s", took, got, want, &log)
			}
		})
	}
}

// The error of a lease that was lost says how long the client has tried, and how long an
// answer took before.
func TestLossSaysHowLongAnswersTake(t *testing.T) {
	for _, took := range []time.Duration{time.Second, 200 * time.Microsecond} {
		synctest.Test(t, func(t *testing.T) {
			d := tap(new(memlock.Store))
			answers(d, func(n int64) time.Duration {
				if n == 1 {
					return took
				}
				return -1
			})
			l := acquire(t, open(t, d, &pawl.Options{TTL: 30 * time.Second}), "a")
			<-l.Done()
			for _, want := range []string{": tried for ", ", the last answer took " + took.String()} {
				if err := l.Err(); !strings.Contains(err.Error(), want) {
					t.Errorf("Err = %v; want it to say %q", err, want)
				}
			}
		})
	}
}

// TestRenewalFindsTheLoss: a lease that the store has ended, as the answer to a renewal says, ends with its contexts, is
// told, and lets the next waiter of the client go on.
func TestRenewalFindsTheLoss(t *testing.T) {
	for want, answer := range map[driver.Reason]error{driver.Broken: &driver.LostError{Reason: driver.Broken, Why: "enough"}, driver.Gone: driver.ErrLost} {
		synctest.Test(t, func(t *testing.T) {
			s := new(memlock.Store)
			d := tap(s)
			set(d, &d.renew, func(context.Context, func() (driver.Renewal, error)) (driver.Renewal, error) {
				return driver.Renewal{}, answer
			})
			told := make(chan error, 1)
			c := open(t, d, &pawl.Options{TTL: 3 * time.Second, Observer: pawl.Observer{Lost: func(e pawl.Event) { told <- e.Err }}})
			l := acquire(t, c, "a")
			ctx := under(t, l)
			began := time.Now()
			next := make(chan *pawl.Lease, 1)
			go func() { next <- acquire(t, c, "a") }()
			for what, cause := range map[string]error{"context": func() error { <-ctx.Done(); return context.Cause(ctx) }(), "observer": <-told} {
				lost := new(pawl.LostError)
				if !errors.As(cause, &lost) || lost.Reason != want || time.Since(began) > time.Second {
					t.Errorf("%s: %v after %v", what, cause, time.Since(began))
				}
			}
			set(d, &d.renew, nil)
			wantIs(t, l.Release(t.Context()), pawl.ErrLost)
			release(t, <-next)
		})
	}
}
