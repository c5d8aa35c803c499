// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/pawl-go/pawl/driver"
)

// pulses is on how many streams keepalives are sent. A member answers those of one
// stream one after the other, and asks the leader for each if it is not it.
const pulses = 4

// pulse sends keepalives on a stream that stays open. The client's KeepAliveOnce
// opens one for each, and shows the password again for each, which costs the server
// a good part of a second.
type pulse struct {
	mu  sync.Mutex
	now *stream // nil while there is none
}

// stream is one of a pulse.
type stream struct {
	queue  chan *beat
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // set before ended is closed

	mu   sync.Mutex
	sent []*beat // those without an answer, in the order in which they were sent
}

// beat is one keepalive. Its answer is recognised by its place: it must not be
// taken for that to a later one for the same etcd lease.
type beat struct {
	id   int64
	done chan struct{}
	resp *pb.LeaseKeepAliveResponse // set before done is closed
}

// keepAlive asks for the full time anew. That the lease is not known is no
// evidence, the member may be behind: the read that follows tells. If others are on
// their way for the same lease it takes another stream, which may lead to another member.
func (b *backing) keepAlive(ctx context.Context, s *store, beside int) error {
	ctx, cancel := s.inTime(ctx, b)
	defer cancel()
	now := driver.Now()
	resp, err := s.pulses[(uint64(b.id)/7+uint64(beside))%pulses].beat(ctx, s, int64(b.id))
	switch {
	case err != nil:
		return clientv3.ContextError(ctx, err)
	case resp.TTL <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	b.asked, b.term = now, resp.Header.RaftTerm
	return nil
}

// beat sends a keepalive and waits for its answer. If that does not come in time,
// or names a term that was over before, the stream is given up: another may lead to
// a member that is better off.
func (p *pulse) beat(ctx context.Context, s *store, id int64) (*pb.LeaseKeepAliveResponse, error) {
	began, term := driver.Now(), s.term.Load()
	st := p.stream(s)
	b := &beat{id: id, done: make(chan struct{})}
	select {
	case st.queue <- b:
	case <-st.ended:
		return nil, st.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-b.done:
		if b.resp.Header.RaftTerm < term {
			st.cancel() // it proves nothing, and the next answers of this member would not
		}
		return b.resp, nil
	case <-st.ended:
		return nil, st.err
	case <-ctx.Done():
		if driver.Now().Sub(began) > silence {
			st.cancel()
		}
		return nil, ctx.Err()
	}
}

// stream returns the present stream, which may not be open yet.
func (p *pulse) stream(s *store) *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
		st := &stream{queue: make(chan *beat), cancel: cancel, ended: make(chan struct{})}
		p.now = st
		go func() {
			defer cancel()
			err := st.run(ctx, s.backings)
			p.mu.Lock()
			p.now = nil
			p.mu.Unlock()
			st.err = err
			close(st.ended)
		}()
	}
	return p.now
}

// run opens the stream and serves it until it fails.
func (st *stream) run(ctx context.Context, leases pb.LeaseClient) error {
	wire, err := leases.LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- st.receive(wire) }()
	for {
		select {
		case b := <-st.queue:
			st.mu.Lock()
			st.sent = append(st.sent, b)
			st.mu.Unlock()
			_ = wire.Send(&pb.LeaseKeepAliveRequest{ID: b.id}) // receive gets the error
		case err := <-failed:
			return err
		}
	}
}

func (st *stream) receive(wire pb.Lease_LeaseKeepAliveClient) error {
	for {
		resp, err := wire.Recv()
		if err != nil {
			return err
		}
		st.mu.Lock()
		if len(st.sent) == 0 || st.sent[0].id != resp.ID {
			st.mu.Unlock()
			st.cancel()
			return errors.New("etcdlock: an answer to a keepalive that was not sent")
		}
		b := st.sent[0]
		st.sent = st.sent[1:]
		st.mu.Unlock()
		b.resp = resp
		close(b.done)
	}
}
