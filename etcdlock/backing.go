// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// backing is an etcd lease. The keys of a lease or waiter are bound to it: when it ends, etcd deletes them.
//
// The leader counts the time of an etcd lease. A member that is cut off or hangs may still believe that it leads,
// and answer keepalives that have no effect. So each keepalive needs a proof: a linearizable read, sent after the
// answer to the keepalive, whose answer has the same raft term. Here is why. A member carried out the keepalive in
// the term of its answer, or in a later one. The leader that confirmed the read had the term of the read's answer,
// or an earlier one, and the majority had elected no other leader when the read was sent. If both terms are equal,
// that leader has kept the lease alive. A later leader begins with the full TTL.
type backing struct {
	id      clientv3.LeaseID
	seconds int64          // its TTL is at least so many seconds
	since   driver.Instant // its TTL certainly began at this instant or later
	asked   driver.Instant // when the last answered keepalive was sent; equal to since if that is proven
	term    uint64         // of the answer to that keepalive
	mark    string         // the key of its mark; see listen
	marked  bool           // the mark exists
}

// grantBacking makes an etcd lease. The majority agrees on it, so it needs no proof.
func (s *store) grantBacking(ctx context.Context, secs int64) (*backing, error) {
	now := driver.Now()
	resp, err := s.client.Grant(ctx, secs)
	if err != nil {
		return nil, err
	}
	return &backing{id: resp.ID, seconds: secs, since: now, asked: now, mark: s.mark(s.id, hex(int64(resp.ID)))}, nil
}

func unknownLease(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// proven reports whether the last keepalive counts. term is the raft term of a linearizable answer, to a request
// that was sent after the keepalive was answered.
func (b *backing) proven(term uint64) bool {
	if term == b.term {
		b.since = max(b.since, b.asked)
	}
	return b.since == b.asked
}

// bind returns operations that put the key, and the mark unless it exists, and bind both to b.
func (b *backing) bind(key, value string) []clientv3.Op {
	ops := []clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(b.id))}
	if !b.marked {
		ops = append(ops, clientv3.OpPut(b.mark, "", clientv3.WithLease(b.id)))
	}
	return ops
}

// due returns the instant of a waiter's next keepalive.
func (b *backing) due() driver.Instant { return b.asked.Add(b.time() / 3) }

func (b *backing) time() time.Duration { return time.Duration(b.seconds) * time.Second }

// maxSpares limits how many spares a client keeps for each TTL. A spare is an etcd lease whose lease was released.
// Only its mark is bound to it, and no request that would bind another key is under way. A keepalive for a spare
// costs the cluster less than a new etcd lease, which the majority writes to disk.
const maxSpares = 64

// spare keeps the etcd lease of l for another lease. l has ended.
func (s *store) spare(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := l.backing
	l.spared = true
	if all := s.spares[b.seconds]; len(all) < maxSpares && s.ctx.Err() == nil {
		s.spares[b.seconds] = append(all, b)
	}
}

// giveBackWithin limits how long Close tries to revoke the spares.
const giveBackWithin = time.Second

// giveBack revokes the spares. If the cluster does not answer, they end with their TTL.
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

// takeSpare returns a spare that may not have ended yet, or nil.
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

// A spare is fresh for a sixteenth of the TTL.
const freshPart = 16

// fresh reports whether a new lease can use b without a keepalive. Its trust counts from b.since, so at most a
// sixteenth of the TTL has passed. If the etcd lease has ended, the cluster refuses to bind a key to it.
func (b *backing) fresh(now driver.Instant, ttl time.Duration) bool {
	return b.since == b.asked && now.Sub(b.since) < ttl/freshPart
}

// back renews b and returns it. If b is nil or has ended, back returns a new etcd lease.
func (s *store) back(ctx context.Context, b *backing, ttl time.Duration) (*backing, error) {
	ctx, cancel := s.request(ctx)
	defer cancel()
	if b != nil {
		err := b.keepAlive(ctx, s)
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return s.grantBacking(ctx, seconds(ttl))
}
