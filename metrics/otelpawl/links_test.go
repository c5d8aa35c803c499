// SPDX-License-Identifier: Apache-2.0

package otelpawl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/otelpawl"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// service is a program that traces to an exporter of its own.
type service struct {
	*pawl.Client
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
}

func newService(t *testing.T, d driver.Store) *service {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	c := open(t, d, pawl.JoinObservers(pawl.Observer{}, otelpawl.Traces(&otelpawl.Options{TracerProvider: provider})))
	return &service{c, spans, provider.Tracer("test")}
}

// links returns where the links of spans of a name lead to.
func (s *service) links(name string) (to []trace.SpanContext) {
	synctest.Wait()
	for _, span := range s.spans.GetSpans() {
		for _, l := range span.Links {
			if span.Name == name {
				to = append(to, l.SpanContext)
			}
		}
	}
	return to
}

// wantLink checks that there is one link of waits, to the span of a context.
func (s *service) wantLink(t *testing.T, to context.Context) {
	t.Helper()
	want := trace.SpanContextFromContext(to)
	if got := s.links("pawl.wait"); len(got) != 1 || got[0].TraceID() != want.TraceID() || got[0].SpanID() != want.SpanID() {
		t.Errorf("links to %+v; want one to %+v", got, want)
	}
	s.spans.Reset()
}

// TestLinkToTheHolder: the span of a wait links to the span of another program in which the
// lease was asked for, whether the wait ends well or not.
func TestLinkToTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		first, second := newService(t, s.Participant()), newService(t, s.Participant())
		deploy, span := first.tracer.Start(t.Context(), "deploy")
		held, err := first.Acquire(deploy, "web")
		if err != nil {
			t.Fatal(err)
		}
		span.End()
		if got := first.links("pawl.wait"); got != nil {
			t.Errorf("nobody was in the way of %v", got)
		}

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := second.Acquire(short, "web"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v", err)
		}
		second.wantLink(t, deploy)

		request, span := second.tracer.Start(t.Context(), "request")
		done := make(chan error)
		go func() {
			done <- second.Do(request, "web", func(context.Context, *pawl.Lease) error { time.Sleep(time.Second); return nil })
		}()
		time.Sleep(time.Second)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait() // until the request has it: before, a waiter of the same client would inherit it
		next := make(chan error)
		go func() {
			next <- first.Do(t.Context(), "web", func(context.Context, *pawl.Lease) error { return nil })
		}()
		time.Sleep(500 * time.Millisecond) // the next waiter has looked
		if err := errors.Join(<-done, <-next); err != nil {
			t.Error(err)
		}
		span.End()
		second.wantLink(t, deploy)
		first.wantLink(t, request)
	})
}

// TestNoLink: to nobody who does not trace, to no damaged record, and to no span of the call's own.
func TestNoLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(memlock.Store)
		traced := newService(t, s.Participant())
		wait := func(ctx context.Context) {
			t.Helper()
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := traced.Acquire(short, "web"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire = %v", err)
			}
			if got := traced.links("pawl.wait"); got != nil {
				t.Errorf("links to %+v", got)
			}
		}
		for _, record := range []string{"", "x", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", strings.Repeat("0", 1<<10)} {
			o := pawl.Observer{Trace: func(context.Context) string { return record }}
			lease, err := open(t, s.Participant(), o).Acquire(t.Context(), "web")
			if err != nil {
				t.Fatal(err)
			}
			info, err := traced.Inspect(t.Context(), "web")
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Holders[0].Trace; len(got) > 64 {
				t.Errorf("the record has %d characters", len(got))
			}
			wait(t.Context())
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		ctx, span := traced.tracer.Start(t.Context(), "both")
		defer span.End()
		lease, err := traced.Acquire(ctx, "web")
		if err != nil {
			t.Fatal(err)
		}
		wait(ctx)
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}
