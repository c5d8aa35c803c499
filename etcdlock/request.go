// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driver"
)

var (
	withLeader  = clientv3.WithRequireLeader(context.Background())
	leaderMD, _ = metadata.FromOutgoingContext(withLeader)
)

const ever time.Duration = math.MaxInt64

// request returns a context for one request. It ends after requestTimeout, in case the cluster does not answer.
// Its metadata makes a member without a leader refuse the request at once. It drops the metadata of the caller's
// context.
func (s *store) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.within(ctx, requestTimeout)
}

func (s *store) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	sent := driver.Now()
	rctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, leaderMD), d)
	stop := context.AfterFunc(s.ctx, cancel)
	return untold{rctx}, func() {
		if rctx.Err() == context.DeadlineExceeded { // the connection may be dead
			s.links.late(sent)
		}
		stop()
		cancel()
	}
}

// untold hides a deadline from the server. The server might reach the deadline first, and return an error on which
// package clientv3 would send the request again.
type untold struct{ context.Context }

func (untold) Deadline() (time.Time, bool) { return time.Time{}, false }
