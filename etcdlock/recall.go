// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driver"
)

// A client that may keep a lease watches the keys of the name. A waiter puts its own key there. A caller that is
// refused and does not wait puts the key of the holder again, unchanged, so nothing is left to delete if it dies. The
// watch also hears waiters of other libraries.

// keeps reports whether the lease of a request may be kept when nobody uses it.
func keeps(req *driver.Request) bool { return req.Keeps && !req.Shared && req.Slots == 0 }

func (e entry) keeps() bool { return e.record.Keeps && !e.shared && e.slots == 0 }

// askBack tells the client of the lease that holds the name, if it may only keep it, that somebody was refused
// because of it. Value, etcd lease and create revision of the key stay what they are. That
// is a hint: if it fails nobody hears of it.
func (s *store) askBack(ctx context.Context, q queue) {
	if len(q) == 0 || !q[0].keeps() {
		return
	}
	ctx, cancel := s.request(ctx)
	defer cancel()
	key := string(q[0].kv.Key)
	_, _ = s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", q[0].kv.ModRevision)).
		Then(clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())).Commit()
}

// overhear begins to watch the keys of the name of a lease that was granted at a revision. store.mu is held.
func (l *lease) overhear(rev int64) {
	var ctx context.Context
	ctx, l.deaf = context.WithCancel(l.s.ctx)
	if l.s.ctx.Err() == nil {
		l.s.work.Go(func() {
			for from := rev + 1; ctx.Err() == nil; from = 0 {
				if from == 0 {
					sleep(ctx, rewatch)
				}
				l.listenFrom(ctx, from)
			}
		})
	}
}

// listenFrom watches the keys from a revision until that fails. From now on, which is 0, what was before is missed.
func (l *lease) listenFrom(ctx context.Context, rev int64) {
	from, to := l.place.all()
	// On a stream of their own, these keep no waiter's watch waiting.
	wctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(l.s.watching(l.s.ctx), "pawl-keeps", "1"))
	defer cancel()
	events := l.s.client.Watch(wctx, from, clientv3.WithRange(to), clientv3.WithRev(rev), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
	// Not before it is there: package clientv3 would not tell the server.
	defer context.AfterFunc(ctx, cancel)()
	for resp := range events {
		if resp.Created && rev == 0 {
			l.s.tell(missed(map[string]bool{l.name: true}))
		}
		for _, ev := range resp.Events {
			l.hear(ev.Kv)
		}
	}
}

// hear acts on a key of the name that was put. The own key may have been put by this client, too: that does no harm.
func (l *lease) hear(kv *mvccpb.KeyValue) {
	own := string(kv.Key) == l.key
	if _, ok := l.s.parse(kv); ok && (!own || kv.CreateRevision == l.rev) {
		l.s.tell(driver.Event{Kind: driver.Wanted, Name: l.name, Lease: l.id, Waits: !own})
	}
}
