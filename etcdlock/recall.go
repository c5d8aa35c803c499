// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-go/pawl/driver"
)

// recall is how a lease that its client may keep hears of others: it watches the keys of
// the name. Whoever waits has put one there. Whoever is refused and does not wait puts the
// key of the holder once more, as it is. So nothing is there that would have to be taken
// away, whatever becomes of the two, and a waiter of another library is heard, too.
type recall struct {
	rev    int64 // of the cluster, when the name was granted
	behind bool  // others were waiting then

	stop context.CancelFunc // of the watch

	mu sync.Mutex // guards the fields below
	// Of the holder's key, as it was seen last.
	value string
	lease int64
	mod   int64
}

// keeps reports whether the lease of a request may be kept when nobody uses it.
func keeps(req *driver.Request) bool { return req.Keeps && !req.Shared && req.Slots == 0 }

func (e entry) keeps() bool { return e.record.Keeps && !e.shared && e.slots == 0 }

// kept returns the key of the holder, if its client may keep it when nobody uses it.
func (q queue) kept() *mvccpb.KeyValue {
	if len(q) > 0 && q[0].keeps() {
		return q[0].kv
	}
	return nil
}

// askBack tells the client of a lease, which may only keep it, that somebody was refused
// because of it. Value, etcd lease and create revision of the key stay what they are. That
// is a hint: if it fails nobody hears of it.
func (s *store) askBack(ctx context.Context, kv *mvccpb.KeyValue) {
	if kv == nil {
		return
	}
	ctx, cancel := s.request(ctx)
	defer cancel()
	key := string(kv.Key)
	_, _ = s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)).
		Then(clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())).Commit()
}

// newRecall begins to listen for l, whose grant has seen what was there. store.mu is held.
func (l *lease) newRecall(seen *looked) *recall {
	r := &recall{rev: seen.rev, behind: seen.behind, value: l.record.String(), lease: int64(l.backing.id), mod: l.rev}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(l.s.ctx)
	if l.s.ctx.Err() == nil {
		l.s.work.Go(func() {
			for ctx.Err() == nil {
				if l.overhear(ctx, r); ctx.Err() == nil {
					l.s.tell(missed(map[string]bool{l.name: true}))
					sleep(ctx, rewatch)
				}
			}
		})
	}
	return r
}

// end ends the watch. store.mu is held.
func (r *recall) end() {
	if r != nil {
		r.stop()
	}
}

// overhear watches the keys of the name until that fails. It watches from now on, as waiters
// do, and then looks what has come since the name was granted, if anything has.
func (l *lease) overhear(ctx context.Context, r *recall) {
	s := l.s
	from, to := l.place.all()
	// On a stream of their own, these keep no waiter's watch waiting.
	wctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(s.watching(s.ctx), "pawl-keeps", "1"))
	defer cancel()
	events := s.client.Watch(wctx, from, clientv3.WithRange(to), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
	// Not before it is there: package clientv3 would not tell the server.
	defer context.AfterFunc(ctx, cancel)()
	for resp := range events {
		if resp.Err() != nil {
			return
		}
		if resp.Created && resp.Header.Revision > r.rev {
			rctx, cancel := s.request(ctx)
			there, err := s.client.Get(rctx, from, clientv3.WithRange(to), clientv3.WithMinModRev(r.rev+1), clientv3.WithLimit(maxShown))
			cancel()
			if err != nil {
				return
			}
			for _, kv := range there.Kvs {
				l.hear(r, kv)
			}
		}
		for _, ev := range resp.Events {
			l.hear(r, ev.Kv)
		}
	}
}

// hear acts on a key of the name that was put, and may have been seen before.
func (l *lease) hear(r *recall, kv *mvccpb.KeyValue) {
	e := driver.Event{Kind: driver.Wanted, Name: l.name, Lease: l.id}
	if string(kv.Key) == l.key {
		if kv.CreateRevision == l.rev && r.hear(kv) {
			l.s.tell(e)
		}
	} else if _, ok := l.s.parse(kv); ok && kv.CreateRevision > r.rev {
		e.Waits = true
		l.s.tell(e)
	}
}

// hear notes what the holder's key is, and reports whether somebody has put it once more as
// it was. What its client writes is something else, or is bound to something else.
func (r *recall) hear(kv *mvccpb.KeyValue) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kv.ModRevision <= r.mod {
		return false
	}
	again = string(kv.Value) == r.value && kv.Lease == r.lease
	r.value, r.lease, r.mod = string(kv.Value), kv.Lease, kv.ModRevision
	return again
}

// seen returns the last mod revision of the holder's key that was heard of, or 0.
func (r *recall) seen() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mod
}
