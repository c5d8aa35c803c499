// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestRequestEnds with its caller's context, with the time for one request, and with
// Close, whichever is first.
func TestRequestEnds(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	type key struct{}
	caller := metadata.AppendToOutgoingContext(context.WithValue(t.Context(), key{}, 1), "authorization", "for others")
	const soon = time.Second
	for _, c := range []struct {
		name  string
		limit time.Duration // of the caller's context; 0: none
		end   func(s *half, cancel func())
		want  error
	}{
		{"no deadline", 0, func(_ *half, cancel func()) { cancel() }, context.Canceled},
		{"no deadline, closed", 0, func(s *half, _ func()) { s.Close() }, context.Canceled},
		{"the time of a request", 0, func(*half, func()) {}, context.DeadlineExceeded},
		{"a deadline soon", soon, func(*half, func()) {}, context.DeadlineExceeded},
	} {
		s := openStore(t, m.url())
		parent, cancel := context.WithCancel(caller)
		if c.limit > 0 {
			parent, cancel = context.WithTimeout(caller, c.limit)
		}
		ctx, done := s.request(parent)
		md, _ := metadata.FromOutgoingContext(ctx)
		if ctx.Value(key{}) != 1 || len(md) != 1 || md.Get(rpctypes.MetadataRequireLeaderKey) == nil {
			t.Errorf("%s: the request has the metadata %v, and the caller's value %v", c.name, md, ctx.Value(key{}))
		}
		if ctx.Err() != nil && parent.Err() == nil {
			t.Errorf("%s: the request has ended: %v", c.name, ctx.Err())
		}
		c.end(s, cancel)
		drivertest.Receive(t, ctx.Done(), c.name+": the request does not end")
		if ctx.Err() != c.want {
			t.Errorf("%s: the request has ended with %v; want %v", c.name, ctx.Err(), c.want)
		}
		done()
		cancel()
	}
}
