// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// backing is an etcd lease, to which the keys of one lease or waiter are bound:
// when it ends, etcd deletes them.
//
// The one leader of the cluster counts its time. A member that has been cut off or
// is stuck may take itself for the leader still, and say that it has kept the
// lease alive, without effect. So an answer to a keepalive proves nothing until a
// linearizable read, sent after it, is answered in the same raft term. The answer
// names the term that the member had when it was asked; it, or the leader that it
// passed the question on to, acted in that term or a later one. And the leader
// that let the read through was that of the read's term or an earlier one, and
// the majority had elected none after it when the read was sent. With one term in
// both, it was the leader then that had kept the lease alive. Every later leader
// begins with the full time.
type backing struct {
	id      clientv3.LeaseID
	seconds int64          // that it was asked for; it has them at least
	since   driver.Instant // not after the instant from which its time certainly counts
	asked   driver.Instant // when the keepalive was sent that was answered last; since if it is proven
	term    uint64         // of that answer
	mark    string         // the key that goes with it; see listen
	marked  bool           // and is there
}

// grantBacking makes an etcd lease. This goes through the majority, so it needs no
// proof.
func (s *store) grantBacking(ctx context.Context, secs int64) (*backing, error) {
	now := driver.Now()
	resp, err := s.client.Grant(ctx, secs)
	if err != nil {
		return nil, err
	}
	return &backing{id: resp.ID, seconds: secs, since: now, asked: now, mark: s.mark(s.id, hex(int64(resp.ID)))}, nil
}

func unknownLease(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// proven notes the term of a linearizable answer to a request that was sent after
// the keepalive was answered, and reports whether that counts now.
func (b *backing) proven(term uint64) bool {
	if term == b.term {
		b.since = max(b.since, b.asked)
	}
	return b.since == b.asked
}

// bind are the operations that bind a key to b, and its mark if that is not there yet.
func (b *backing) bind(key, value string) []*pb.RequestOp {
	ops := []*pb.RequestOp{put(key, value, b.id)}
	if !b.marked {
		ops = append(ops, put(b.mark, "", b.id))
	}
	return ops
}

// due returns when the next keepalive is due, for a waiter.
func (b *backing) due() driver.Instant { return b.asked.Add(b.time() / 3) }

func (b *backing) time() time.Duration { return time.Duration(b.seconds) * time.Second }

// Spares are etcd leases that were used and to which certainly nothing but their mark
// is bound, now or by a request still under way. A keepalive costs the cluster less than
// making a new one, which has to go to the disks of the majority.
const maxSpares = 64

// spare keeps the etcd lease of l, which has ended, for another lease.
func (s *store) spare(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := l.backing
	l.spared = true
	if all := s.spares[b.seconds]; len(all) < maxSpares && s.ctx.Err() == nil {
		s.spares[b.seconds] = append(all, b)
	}
}

// giveBackWithin bounds how long Close takes for that.
const giveBackWithin = time.Second

// giveBack revokes spares, which would be there for their TTL otherwise. If the
// cluster does not answer, so be it.
func (s *store) giveBack(spares map[int64][]*backing) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(context.Background()), giveBackWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, some := range spares {
		for _, b := range some {
			all.Go(func() { _, _ = s.client.Revoke(ctx, b.id) })
		}
	}
	all.Wait()
}

// takeSpare returns a spare that may be alive still, or nil.
func (s *store) takeSpare(secs int64) *backing {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.spares[secs]
	if len(all) == 0 {
		return nil
	}
	b := all[len(all)-1]
	s.spares[secs] = all[:len(all)-1]
	if driver.Now().Sub(b.asked) > b.time()*9/10 {
		delete(s.spares, secs) // the others are older
		return nil
	}
	return b
}

// freshPart is how small a part of a TTL may have passed of an etcd lease that a new
// attempt begins with.
const freshPart = 16

// fresh reports whether b can be used now, as it is, for a lease with the given TTL. Its time
// certainly counts from since, so the lease can be trusted from there: it begins with a
// sixteenth of its TTL gone at most, until its first renewal. So a client that takes and
// releases leases all the time has to ask only now and then. If the etcd lease is not there any
// more the cluster refuses to bind a key to it.
func (b *backing) fresh(now driver.Instant, ttl time.Duration) bool {
	return b.since == b.asked && now.Sub(b.since) < ttl/freshPart
}

// back returns an etcd lease that the cluster has just been asked for: b, which may be
// nil, if it is there still, and else a new one.
func (s *store) back(ctx context.Context, b *backing, ttl time.Duration) (*backing, error) {
	ctx, cancel := s.request(ctx)
	defer cancel()
	if b != nil {
		err := b.keepAlive(ctx, s, 0)
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return s.grantBacking(ctx, seconds(ttl))
}
