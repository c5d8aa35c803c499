// SPDX-License-Identifier: Apache-2.0

package otelpawl

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/metrics/internal/measure"
)

// Traces returns an Observer that makes a span "pawl.wait" for each call of Acquire, and a span "pawl.hold" for
// each lease. They are children of the span in the call's context. Several clients may share the Observer.
//
// The store's record of a lease contains the span of the call that acquired it. The span of a wait has a link to
// that span of the lease for which it waited.
func Traces(opts *Options) pawl.Observer {
	if opts == nil {
		opts = &Options{}
	}
	t := &spans{Tracer: opts.tracer(), class: opts.Class, names: opts.Names, held: map[string]*held{}}
	return pawl.Observer{
		Acquired: t.acquired,
		Waited:   func(e pawl.Event) { t.wait(e, measure.NotGranted(e.Err)) },
		Renewed:  t.renewed,
		Suspect:  t.suspect,
		Lost:     t.end,
		Released: t.end,
		Trace:    traceparent,
	}
}

type spans struct {
	trace.Tracer
	class func(string) string
	names bool

	mu   sync.Mutex
	held map[string]*held // by Event.Lease, which is unique among the leases that are held
}

type held struct {
	trace.Span
	suspect bool
}

// start begins a span that started the given time ago.
func (t *spans) start(e pawl.Event, name string, ago time.Duration, links ...trace.Link) trace.Span {
	g := measure.GroupOf(e, t.class)
	all := []attribute.KeyValue{attribute.String("pawl.kind", g.Kind)}
	if g.Class != "" {
		all = append(all, attribute.String("pawl.class", g.Class))
	}
	if t.names {
		all = append(all, attribute.String("pawl.name", e.Name))
	}
	if e.Token != 0 {
		all = append(all, attribute.Int64("pawl.token", int64(e.Token)))
	}
	_, span := t.Start(e.Context, name, trace.WithTimestamp(time.Now().Add(-ago)), trace.WithAttributes(all...), trace.WithLinks(links...))
	return span
}

// wait makes the span of a wait when the wait has ended: its event says how long the call has waited. No event
// says to which Waiting event it belongs, so the span cannot begin there.
func (t *spans) wait(e pawl.Event, outcome string) {
	var inTheWay []pawl.Held
	if e.Behind != nil {
		inTheWay = append(inTheWay, *e.Behind)
	}
	var busy *pawl.HeldError
	if errors.As(e.Err, &busy) && busy.Info != nil && len(busy.Info.Holders) > 0 {
		inTheWay = append(inTheWay, busy.Info.Holders[0])
	}
	span := t.start(e, "pawl.wait", e.Waited, links(e.Context, inTheWay)...)
	span.SetAttributes(attribute.String("pawl.outcome", outcome))
	if n := len(inTheWay); n > 0 {
		span.SetAttributes(attribute.String("pawl.holder", inTheWay[n-1].Holder.String()))
	}
	t.fail(span, e.Err, outcome)
	span.End()
}

func (t *spans) acquired(e pawl.Event) {
	if !e.Tried {
		t.wait(e, measure.Granted)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[e.Lease] = &held{Span: t.start(e, "pawl.hold", 0)}
}

func (t *spans) suspect(e pawl.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[e.Lease]; h != nil {
		h.suspect = true
		h.AddEvent("suspect", trace.WithAttributes(attribute.Float64("pawl.left", e.Left.Seconds())))
	}
}

func (t *spans) renewed(e pawl.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[e.Lease]; h != nil && h.suspect {
		h.suspect = false
		h.AddEvent("held again")
	}
}

func (t *spans) end(e pawl.Event) {
	t.mu.Lock()
	h := t.held[e.Lease]
	delete(t.held, e.Lease)
	t.mu.Unlock()
	if h == nil {
		return
	}
	outcome := measure.Released
	if errors.Is(e.Err, pawl.ErrLost) {
		outcome = measure.WasLost
		h.SetAttributes(attribute.String("pawl.reason", string(measure.ReasonOf(e.Err))))
	}
	h.SetAttributes(attribute.String("pawl.outcome", outcome))
	t.fail(h, e.Err, outcome)
	h.End()
}

// fail records err, unless it is nil.
func (t *spans) fail(span trace.Span, err error, outcome string) {
	if err == nil {
		return
	}
	if t.names {
		outcome = err.Error()
	}
	span.SetStatus(codes.Error, outcome)
}

const traceparentKey = "traceparent"

// traceparent returns the traceparent of the span in ctx, or "".
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparentKey]
}

// links returns links to the spans of the leases in the way of a call, each once. It leaves out the span of the
// call itself, because two calls in one span may wait for each other's lease.
func links(ctx context.Context, inTheWay []pawl.Held) (all []trace.Link) {
	seen := map[trace.SpanID]bool{trace.SpanContextFromContext(ctx).SpanID(): true}
	for _, h := range inTheWay {
		carrier := propagation.MapCarrier{traceparentKey: h.Trace} // others wrote it, and it may be invalid
		to := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if to.IsValid() && !seen[to.SpanID()] {
			seen[to.SpanID()] = true
			all = append(all, trace.Link{SpanContext: to})
		}
	}
	return all
}
