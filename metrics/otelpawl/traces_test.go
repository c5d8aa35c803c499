// SPDX-License-Identifier: Apache-2.0

package otelpawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/otelpawl"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// text is a span for people: name, parent, length, status, attributes and events.
func text(s sdk.ReadOnlySpan, parents map[string]string) string {
	line := s.Name()
	if parent := parents[s.Parent().SpanID().String()]; parent != "" {
		line += " of " + parent
	}
	line += fmt.Sprintf(" took %v", s.EndTime().Sub(s.StartTime()))
	if s.Status().Code != codes.Unset {
		line += fmt.Sprintf(", %v %q", s.Status().Code, s.Status().Description)
	}
	for _, a := range s.Attributes() {
		if a.Key != "pawl.token" {
			line += fmt.Sprintf(" %s=%s", strings.TrimPrefix(string(a.Key), "pawl."), a.Value.String())
		}
	}
	for _, e := range s.Events() {
		line += " (" + e.Name + ")"
	}
	return line
}

// deaf is a store that does not answer renewals while it is away.
type deaf struct {
	driver.Store
	away atomic.Bool
}

func (d *deaf) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (driver.Renewal, error) {
	if d.away.Load() {
		return driver.Renewal{}, driver.ErrUnavailable
	}
	return d.Store.Renew(ctx, l, ttl)
}

// wantSpans compares the spans, in any order: each client has a goroutine that tells its events.
func wantSpans(t *testing.T, recorder *tracetest.SpanRecorder, want ...string) {
	t.Helper()
	synctest.Wait()
	parents := map[string]string{}
	for _, s := range recorder.Started() {
		parents[s.SpanContext().SpanID().String()] = s.Name()
	}
	var got []string
	for _, s := range recorder.Ended() {
		got = append(got, text(s, parents))
	}
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
		o := otelpawl.Traces(&otelpawl.Options{Class: first, TracerProvider: provider})
		s := new(memlock.Store)
		c, err := pawl.New(s.Participant(), &pawl.Options{Observer: o, Holder: pawl.Holder{Who: "the first", PID: 7, Command: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, s.Participant(), o)
		ctx, span := provider.Tracer("test").Start(t.Context(), "work")
		held, err := c.TryAcquire(ctx, "invoice/secret")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := other.Acquire(short, "invoice/secret"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v", err)
		}
		done := make(chan error)
		go func() {
			done <- other.Do(ctx, "invoice/secret", func(context.Context, *pawl.Lease) error { time.Sleep(time.Second); return nil })
		}()
		time.Sleep(2 * time.Second)
		if err := held.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		span.End()
		wantSpans(t, recorder,
			`pawl.wait of work took 1s, Error "gave_up" kind=exclusive class=invoice outcome=gave_up holder=the first (pid 7, "test")`,
			`pawl.hold of work took 3s kind=exclusive class=invoice outcome=released`,
			`pawl.wait of work took 2s kind=exclusive class=invoice outcome=granted holder=the first (pid 7, "test")`,
			`pawl.hold of work took 1s kind=exclusive class=invoice outcome=released`,
			`work took 4s`)
	})
}

// A lease whose store is away and comes back, and then does not.
func TestSpanOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		o := otelpawl.Traces(&otelpawl.Options{Names: true, TracerProvider: sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))})
		d := &deaf{Store: new(memlock.Store).Participant()}
		l, err := open(t, d, o).TryAcquire(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		d.away.Store(true)
		time.Sleep(5 * time.Second)
		d.away.Store(false)
		time.Sleep(5 * time.Second)
		d.away.Store(true)
		<-l.Done()
		l.Release(t.Context())
		synctest.Wait()
		spans := recorder.Ended()
		if len(spans) != 1 {
			t.Fatalf("%d spans; want 1", len(spans))
		}
		got, end := text(spans[0], nil), "(suspect) (held again) (suspect)"
		for _, part := range []string{"pawl.hold took ", `Error "pawl: \"deploy\": lease lost: it was not renewed in time`, "kind=exclusive name=deploy reason=expired outcome=lost " + end} {
			if !strings.Contains(got, part) {
				t.Errorf("the span is %s; want %q", got, part)
			}
		}
	})
}
