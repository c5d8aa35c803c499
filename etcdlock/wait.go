// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// waits returns the answer to a waiter. The waiter also looks with each keepalive of its etcd lease, because its
// watch may have failed without an error.
func (l *lease) waits() driver.Answer {
	return driver.Answer{Rank: 1, Free: -1, Again: max(l.backing.due().Sub(driver.Now()), time.Millisecond), Session: l.s}
}

// join puts the keys of the lease, at the end of the queue, unless they exist. It grants the name if no key is in
// the way, and else watches the last key before them. After a lost answer join can be repeated.
//
// join leaves the look to the next step: if a look fails, its caller must know that the lease is in the queue.
func (l *lease) join(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	from, to := l.place.rivals(req)
	last := clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	resp, err := l.commit(ctx, []clientv3.Cmp{l.absent()}, append([]clientv3.Op{last}, l.puts()...), clientv3.OpGet(l.key, clientv3.WithKeysOnly()))
	if err != nil {
		return driver.Answer{}, err
	}
	rev, kvs := resp.Header.Revision, resp.Responses[0].GetResponseRange().Kvs
	if resp.Succeeded && len(kvs) == 0 {
		return l.won(ctx, req, resp.Header, rev)
	}
	if !resp.Succeeded { // the key exists: an earlier join has put it
		rev, kvs = kvs[0].CreateRevision, nil
	}
	if err := l.placed(ctx, rev); err != nil {
		return driver.Answer{}, err
	}
	l.waited = true
	q := l.s.readQueue(kvs)
	if len(q) > 0 {
		l.s.askBack(ctx, q[0], true)
	}
	if len(q) == 0 || req.Slots > 0 || q.endless() != nil {
		return driver.Answer{Session: l.s}, nil // the waiter looks at once
	}
	l.watch(&looked{rival: &q[0]})
	return l.waits(), nil // the waiter looks when the watch has begun
}

// step looks for a key in the waiter's way, and renews its etcd lease when that is due.
func (l *lease) step(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	var err error
	due := driver.Now() >= l.backing.due()
	if due {
		rctx, cancel := l.s.request(ctx)
		err = l.backing.keepAlive(rctx, l.s)
		cancel()
		if err != nil && !unknownLease(err) {
			return driver.Answer{}, l.s.failure(ctx, err, false)
		}
	}
	seen, fail := l.look(ctx, req)
	switch {
	case fail != nil:
		return driver.Answer{}, fail
	case err != nil: // the key exists: the member that does not know its etcd lease is behind
		return driver.Answer{}, l.s.failure(ctx, err, false)
	case seen.rival == nil:
		return l.claim(ctx, req, seen)
	}
	if !l.backing.proven(seen.term) {
		l.backing.asked = l.backing.since // makes the next keepalive due earlier
	}
	l.watch(seen)
	if due { // the askBack of join may be lost
		l.s.askBack(ctx, *seen.rival, true)
	}
	return l.waits(), nil
}
