// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// newsman is a store that reports the news that the test gives it.
type newsman struct {
	driver.Store
	tell func(driver.News)
}

func (n *newsman) Listen(f func(driver.Event)) {
	n.Store.Listen(f)
	n.tell = func(news driver.News) { f(driver.Event{Kind: driver.Told, News: news}) }
}

func TestNewsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &newsman{Store: new(memlock.Store).Participant()}
		var log bytes.Buffer
		var told []pawl.Event
		open(t, d, &pawl.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Observer: pawl.Observer{
				Stepped: func(e pawl.Event) { told = append(told, e) },
				Closed:  func(e pawl.Event) { told = append(told, e) },
			},
		})
		d.tell(driver.News{Server: "redis-7", Step: -time.Hour})
		d.tell(driver.News{Server: "redis-8", Closed: time.Minute})
		synctest.Wait()
		want := []pawl.Event{{Server: "redis-7", Step: -time.Hour}, {Server: "redis-8", Left: time.Minute}}
		if !slices.Equal(told, want) {
			t.Errorf("the observer was told %+v; want %+v", told, want)
		}
		for _, part := range []string{"forward=-1h", "redis-7", "left=1m", "redis-8"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log says %q; want %q", log.String(), part)
			}
		}
	})
}

type spanKey struct{}

// An observer can join the events of one call: all have its context.
func TestEventsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		tell := func(what string) func(pawl.Event) {
			return func(e pawl.Event) {
				span, _ := e.Context.Value(spanKey{}).(string)
				kind := map[bool]string{true: " shared"}[e.Shared]
				if e.Slots > 0 {
					kind = " slot"
				}
				told = append(told, what+" "+e.Name+kind+" by "+span)
			}
		}
		c := open(t, new(memlock.Store).Participant(), &pawl.Options{Observer: pawl.Observer{
			Waiting: tell("waiting"), Acquired: tell("acquired"), Waited: tell("waited"), Released: tell("released"),
		}})
		call := func(span string) context.Context { return context.WithValue(t.Context(), spanKey{}, span) }
		first, err := c.Acquire(call("1"), "a", pawl.Slots(1))
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(call("2"), time.Second)
		defer cancel()
		_, err = c.Acquire(short, "a", pawl.Slots(1))
		wantIs(t, err, context.DeadlineExceeded)
		release(t, first)
		tried, err := c.TryAcquire(call("3"), "a", pawl.Shared())
		if err != nil {
			t.Fatal(err)
		}
		release(t, tried)
		synctest.Wait()
		want := []string{"waiting a slot by 1", "acquired a slot by 1", "waiting a slot by 2", "waited a slot by 2", "released a slot by 1", "acquired a shared by 3", "released a shared by 3"}
		if !slices.Equal(told, want) {
			t.Errorf("the observer was told\n%q; want\n%q", told, want)
		}
	})
}

// Without a Logger nothing is logged, but once to the default one that the store grants nothing
// for a while, or refuses requests: else a first call of Acquire waits in silence.
func TestNoLogger(t *testing.T) {
	ignore := func(pawl.Event) {}
	for name, c := range map[string]struct {
		observer pawl.Observer
		news     driver.News
		want     string // in the only line
	}{
		"closed":           {pawl.Observer{}, driver.News{Server: "redis-7", Closed: time.Minute}, "left=1m"},
		"closed, watched":  {pawl.Observer{Closed: ignore}, driver.News{Closed: time.Minute}, ""},
		"refused":          {pawl.Observer{}, driver.News{Refused: errors.New("out of memory")}, "out of memory"},
		"refused, watched": {pawl.Observer{Refused: ignore}, driver.News{Refused: errors.New("out of memory")}, ""},
	} {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		synctest.Test(t, func(t *testing.T) {
			d := &newsman{Store: new(memlock.Store).Participant()}
			client := open(t, d, &pawl.Options{Observer: c.observer})
			d.tell(c.news)
			d.tell(c.news)
			l := acquire(t, client, "a", pawl.MaxHold(time.Second))
			<-l.Done()
			wantIs(t, l.Release(t.Context()), pawl.ErrLost)
			synctest.Wait()
			lines := 1
			if c.want == "" {
				lines = 0
			}
			if strings.Count(log.String(), "\n") != lines || !strings.Contains(log.String(), c.want) || strings.Contains(c.want, "left") && !strings.Contains(log.String(), "run pawl bless") {
				t.Errorf("%s: logged %q; want %d line with %q", name, &log, lines, c.want)
			}
		})
	}
}

// A TTL of less than six answers of the store is logged once, from the first grant on, if need be to
// the default log.
func TestSlowStoreIsLogged(t *testing.T) {
	for _, c := range []struct {
		late     time.Duration
		observed bool
		want     int
	}{{3 * time.Second, false, 1}, {3 * time.Second, true, 0}, {2 * time.Second, false, 0}} {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		synctest.Test(t, func(t *testing.T) {
			var reads atomic.Int64
			opts := &pawl.Options{TTL: 15 * time.Second}
			if c.observed {
				opts.Observer.Renewed = func(pawl.Event) {}
			}
			d := tap(new(memlock.Store))
			set(d, &d.try, late(c.late))
			client := open(t, showOf(d, func(ctx context.Context, name string) (*driver.Info, error) {
				reads.Add(1)
				time.Sleep(c.late)
				return d.Inspect(ctx, name)
			}), opts)
			for _, name := range []string{"a", "b"} {
				release(t, acquire(t, client, name, pawl.NoRenew()))
				time.Sleep(c.late)
			}
			synctest.Wait()
			if n := strings.Count(log.String(), "\n"); n != c.want || strings.Count(log.String(), "took=3s ttl=15s") != c.want {
				t.Errorf("with answers after %v, observed %v: logged %q; want %d line", c.late, c.observed, &log, c.want)
			}
			if reads.Load() > 1 {
				t.Errorf("the client has measured %d times; want once", reads.Load())
			}
		})
	}
}
