// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// rewrite renews by writing the key anew, bound to a new etcd lease: with a longer TTL, or
// because it is not certain which one the key is bound to. The key keeps its create
// revision, and so its place and its token.
//
// A write whose answer is lost may be carried out late, and then bind the key to an
// etcd lease that nobody keeps alive any more. So each is on condition that the key
// has not changed since it was read. And after one of unknown outcome, nothing
// but another write that has succeeded counts as a renewal: it makes the condition
// of the late one false.
func (l *lease) rewrite(ctx context.Context, secs int64) (driver.Instant, error) {
	b, err := l.another(ctx, max(secs, l.backing.seconds))
	if err != nil {
		return 0, err
	}
	l.s.mu.Lock()
	value := encode(&l.record)
	l.s.mu.Unlock()
	for range maxProofs {
		p, err := l.prove(ctx)
		if err != nil {
			return 0, err
		}
		l.dirty = true
		resp, err := l.s.txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte(l.key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: p.own[0].ModRevision}}},
			Success: b.bind(l.key, value),
		})
		if err != nil {
			return 0, err
		}
		if !resp.Succeeded { // others may have put it, see askBack
			continue
		}
		l.dirty, l.shown, b.marked = false, true, true
		l.backing, l.next = b, nil
		if !b.proven(resp.Header.RaftTerm) {
			err = l.verify(ctx, b, 0)
		}
		return b.since, err
	}
	return 0, errUnproven
}

// another returns a new etcd lease, which takes the mark over. The one of a rewrite before, which has failed, will do
// while most of its time is left: on a slow link there may be no time to ask for two.
func (l *lease) another(ctx context.Context, secs int64) (*backing, error) {
	if b := l.next; b != nil && b.seconds >= secs && driver.Now().Sub(b.since) < b.time()/3 && !l.newerThan(b) {
		return b, nil
	}
	b, err := l.s.grantBacking(ctx, secs)
	if err == nil {
		b.mark, l.next = l.backing.mark, b
	}
	return b, err
}

// newerThan reports whether a renewal since b was granted may have been returned. The lease is trusted
// from that renewal on, with the TTL of the next: b must not replace it, as it ends earlier.
func (l *lease) newerThan(b *backing) bool { return max(l.told, l.backing.since) > b.since }

// show writes the time of the grant into the record, which a waiter could not know when
// it came. That is for people, so it is tried once, and nothing depends on it: a cluster without
// space refuses it, and keeps leases alive all the same. The key stays bound to its etcd
// lease, also if the write is carried out late.
func (l *lease) show() {
	ctx, cancel := l.s.request(l.s.ctx)
	defer cancel()
	p, err := l.prove(ctx)
	if err != nil {
		return
	}
	l.s.mu.Lock()
	value := encode(&l.record)
	l.s.mu.Unlock()
	_, _ = l.s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(l.key), "=", p.own[0].ModRevision)).
		Then(clientv3.OpPut(l.key, value, clientv3.WithIgnoreLease())).Commit()
}
