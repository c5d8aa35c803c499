// SPDX-License-Identifier: Apache-2.0

package otelpawl

import (
	"context"

	"github.com/pawl-go/pawl"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

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
