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
func (g *grant) rewrite(ctx context.Context, secs int64) (driver.Instant, error) {
	b, err := g.another(ctx, max(secs, g.backing.seconds))
	if err != nil {
		return 0, err
	}
	if err := g.known(ctx); err != nil {
		return 0, err
	}
	g.s.mu.Lock()
	value := g.record.String()
	g.s.mu.Unlock()
	resp, err := g.s.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: []byte(g.key), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: g.mod}}},
		Success: b.bind(g.key, value),
	})
	if err != nil {
		g.mod, g.dirty = 0, true
		return 0, err
	}
	if !resp.Succeeded {
		g.mod, g.dirty = 0, true // unless it is gone
		if err := g.known(ctx); err != nil {
			return 0, err
		}
		return 0, errUnproven
	}
	g.mod, g.dirty, g.written = resp.Header.Revision, false, true
	g.rebound(b)
	if b.proven(resp.Header.RaftTerm) {
		return b.since, nil
	}
	err = g.verify(ctx, g.backing, 0)
	return g.backing.since, err
}

// another returns a new etcd lease. The one of a rewrite before, which has failed, will do
// while most of its time is left: on a slow link there may be no time to ask for two.
func (g *grant) another(ctx context.Context, secs int64) (*backing, error) {
	if b := g.next; b != nil && b.seconds >= secs && driver.Now().Sub(b.since) < b.time()/3 && !g.newerThan(b) {
		return b, nil
	}
	b, err := g.s.grantBacking(ctx, secs)
	if err == nil {
		g.next = b
	}
	return b, err
}

// newerThan reports whether a renewal since b was granted may have been returned. The lease is trusted
// from that renewal on, with the TTL of the next: b must not replace it, as it ends earlier.
func (g *grant) newerThan(b *backing) bool { return max(g.told, g.backing.since) > b.since }

// rebound notes that b is the backing now, and listens for its mark.
func (g *grant) rebound(b *backing) {
	b.marked = true
	g.backing, g.next = b, nil
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.s.grants[g.mark] == g {
		delete(g.s.grants, g.mark)
		g.s.grants[b.mark] = g
	}
	g.mark = b.mark
}

// known learns the mod revision of the key, and whether it still is there, if a write had
// an unknown outcome.
func (g *grant) known(ctx context.Context) error {
	if g.mod != 0 {
		g.mod = max(g.mod, g.recall.seen()) // others may have put it, see recall
		return nil
	}
	p, err := g.prove(ctx)
	if err != nil {
		return err
	}
	g.mod = p.own[0].ModRevision
	return nil
}

// showOnce writes the time of the grant into the record, which a waiter could not know when
// it came. That is for people, so nothing waits long for it or depends on it: a cluster without
// space refuses it, and keeps leases alive all the same. The key stays bound to its etcd
// lease, also if the write is carried out late.
func (g *grant) showOnce(ctx context.Context) {
	g.renewing.Lock()
	if g.written {
		g.renewing.Unlock()
		return
	}
	done := make(chan struct{})
	g.written = g.s.background(func() { defer close(done); g.show() })
	within, began := g.backing.time()/24, g.written
	g.renewing.Unlock()
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

func (g *grant) show() {
	ctx, cancel := g.s.request(g.s.ctx)
	defer cancel()
	g.renewing.Lock()
	before := g.mod
	g.renewing.Unlock()
	after, err := g.writeRecord(ctx, before)
	g.renewing.Lock()
	defer g.renewing.Unlock()
	if g.mod == before && !g.dirty {
		g.mod = after
	}
	g.written = err == nil || refused(err) != nil // refused: or rather, not worth another try
}

// writeRecord writes the record into the key, which has the given mod revision, or one that is
// not known if it is 0. It returns the revision that the key has then; 0 if that is not known.
func (g *grant) writeRecord(ctx context.Context, mod int64) (int64, error) {
	if mod == 0 {
		p, err := g.prove(ctx)
		if err != nil {
			return 0, err
		}
		mod = p.own[0].ModRevision
	}
	g.s.mu.Lock()
	value := g.record.String()
	g.s.mu.Unlock()
	resp, err := g.s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(g.key), "=", max(mod, g.recall.seen()))).
		Then(clientv3.OpPut(g.key, value, clientv3.WithIgnoreLease())).Commit()
	switch {
	case err != nil:
		return 0, err
	case !resp.Succeeded:
		return 0, errUnproven
	}
	return resp.Header.Revision, nil
}
