// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl/driver"
)

const (
	// maxStreams limits the keepalives under way, each of which has a stream. On a link with a round trip of a
	// second, it is enough for 2,500 leases with a TTL of 30 s.
	maxStreams = 256
	// maxIdleStreams limits how many streams stay open for the next keepalives.
	maxIdleStreams = 32
)

// stream sends keepalives, one at a time, so that it cannot take an answer for the answer to a later keepalive. It
// stays open for the next one. Client.KeepAliveOnce opens a stream for each keepalive. With a password, it sends
// the password with each stream, and checking that costs the server much time.
type stream struct {
	pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// keepAlive renews the etcd lease. If the member does not know the etcd lease, the member may lag behind. The read
// that follows shows whether the lease has ended.
func (b *backing) keepAlive(ctx context.Context, s *store) error {
	ctx, cancel := s.inTime(ctx, b)
	defer cancel()
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		st := s.idleStream()
		used := st != nil
		if !used {
			var err error
			if st, err = s.openStream(ctx); err != nil {
				return clientv3.ContextError(ctx, err)
			}
		}
		resp, err := b.beat(ctx, s, st)
		switch {
		case err != nil && used && ctx.Err() == nil: // the idle stream may have ended long ago
			continue
		case err != nil:
			return clientv3.ContextError(ctx, err)
		case resp.TTL <= 0:
			return rpctypes.ErrLeaseNotFound
		}
		return nil
	}
}

// beat sends one keepalive. It closes the stream if the answer is late, or has an older term than an answer
// before: the member may be cut off, and another stream may lead to a member that is not.
func (b *backing) beat(ctx context.Context, s *store, st *stream) (*pb.LeaseKeepAliveResponse, error) {
	stop := context.AfterFunc(ctx, st.cancel)
	now, term := driver.Now(), s.term.Load()
	_ = st.Send(&pb.LeaseKeepAliveRequest{ID: int64(b.id)}) // Recv returns the error
	resp, err := st.Recv()
	if !stop() || err != nil || resp.Header.RaftTerm < term || !s.keepsIdle(st) {
		st.cancel()
	}
	if err == nil && resp.TTL > 0 {
		b.asked, b.term = now, resp.Header.RaftTerm
	}
	return resp, err
}

// idleStream returns an open stream without a keepalive under way, or nil.
func (s *store) idleStream() (st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.idle) - 1; last >= 0 {
		st, s.idle = s.idle[last], s.idle[:last]
	}
	return st
}

// keepsIdle keeps a stream for the next keepalive. It returns false if there are enough already.
func (s *store) keepsIdle(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == maxIdleStreams {
		return false
	}
	s.idle = append(s.idle, st)
	return true
}

func (s *store) openStream(ctx context.Context) (*stream, error) {
	sctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
	defer context.AfterFunc(ctx, cancel)()
	wire, err := s.backings.LeaseKeepAlive(sctx, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{wire, cancel}, nil
}
