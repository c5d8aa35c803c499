// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

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
// has not changed since we knew it last. And after one of unknown outcome, nothing
// but another write that has succeeded counts as a renewal: it makes the condition
// of the late one false.
func (l *lease) rewrite(ctx context.Context, secs int64) (driver.Instant, error) {
	b, err := l.another(ctx, max(secs, l.backing.seconds))
	if err != nil {
		return 0, err
	}
	if err := l.known(ctx); err != nil {
		return 0, err
	}
	l.s.mu.Lock()
	value := l.record.String()
	l.s.mu.Unlock()
	resp, err := l.s.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte(l.key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: l.mod}}},
		Success: b.bind(l.key, value),
	})
	if err != nil {
		l.mod, l.dirty = 0, true
		return 0, err
	}
	if !resp.Succeeded {
		l.mod, l.dirty = 0, true // unless it is gone
		if err := l.known(ctx); err != nil {
			return 0, err
		}
		return 0, errUnproven
	}
	l.mod, l.dirty, l.written = resp.Header.Revision, false, true
	l.rebound(b)
	if b.proven(resp.Header.RaftTerm) {
		return b.since, nil
	}
	err = l.verify(ctx, l.backing, 0)
	return l.backing.since, err
}

// another returns a new etcd lease. The one of a rewrite before, which has failed, will do
// while most of its time is left: on a slow link there may be no time to ask for two.
func (l *lease) another(ctx context.Context, secs int64) (*backing, error) {
	if b := l.next; b != nil && b.seconds >= secs && driver.Now().Sub(b.since) < b.time()/3 && !l.newerThan(b) {
		return b, nil
	}
	b, err := l.s.grantBacking(ctx, secs)
	if err == nil {
		l.next = b
	}
	return b, err
}

// newerThan reports whether a renewal since b was granted may have been returned. The lease is trusted
// from that renewal on, with the TTL of the next: b must not replace it, as it ends earlier.
func (l *lease) newerThan(b *backing) bool { return max(l.told, l.backing.since) > b.since }

// rebound notes that b is the backing now, and listens for its mark.
func (l *lease) rebound(b *backing) {
	b.marked = true
	l.backing, l.next = b, nil
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.ended == nil {
		if l.marked != l.named {
			delete(l.s.backed, l.marked)
		}
		l.s.backed[b.id] = l
	}
	l.marked = b.id
}

// known learns the mod revision of the key, and whether it still is there, if a write had
// an unknown outcome.
func (l *lease) known(ctx context.Context) error {
	if l.mod != 0 {
		l.mod = max(l.mod, l.recall.seen()) // others may have put it, see recall
		return nil
	}
	p, err := l.prove(ctx)
	if err != nil {
		return err
	}
	l.mod = p.own[0].ModRevision
	return nil
}

// showOnce writes the time of the grant into the record, which a waiter could not know when
// it came. That is for people, so nothing waits long for it or depends on it: a cluster without
// space refuses it, and keeps leases alive all the same. The key stays bound to its etcd
// lease, also if the write is carried out late.
func (l *lease) showOnce(ctx context.Context) {
	l.renewing.Lock()
	if l.written {
		l.renewing.Unlock()
		return
	}
	done := make(chan struct{})
	l.written = l.s.background(func() { defer close(done); l.show() })
	within, began := l.backing.time()/24, l.written
	l.renewing.Unlock()
	if !began {
		return
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *lease) show() {
	ctx, cancel := l.s.request(l.s.ctx)
	defer cancel()
	l.renewing.Lock()
	before := l.mod
	l.renewing.Unlock()
	after, err := l.writeRecord(ctx, before)
	l.renewing.Lock()
	defer l.renewing.Unlock()
	if l.mod == before && !l.dirty {
		l.mod = after
	}
	l.written = err == nil || refused(err) != nil // refused: or rather, not worth another try
}

// writeRecord writes the record into the key, which has the given mod revision, or one that is
// not known if it is 0. It returns the revision that the key has then; 0 if that is not known.
func (l *lease) writeRecord(ctx context.Context, mod int64) (int64, error) {
	if mod == 0 {
		p, err := l.prove(ctx)
		if err != nil {
			return 0, err
		}
		mod = p.own[0].ModRevision
	}
	l.s.mu.Lock()
	value := l.record.String()
	l.s.mu.Unlock()
	resp, err := l.s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(l.key), "=", max(mod, l.recall.seen()))).
		Then(clientv3.OpPut(l.key, value, clientv3.WithIgnoreLease())).Commit()
	switch {
	case err != nil:
		return 0, err
	case !resp.Succeeded:
		return 0, errUnproven
	}
	return resp.Header.Revision, nil
}
