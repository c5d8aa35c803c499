// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// rewrite renews the lease with a longer TTL: it writes the key again, bound to a new etcd lease. The key keeps
// its create revision, and so its place in the queue and its token. l.renewing is held.
//
// If a write has no answer, the cluster may have carried it out, or may carry it out later. Then l.next stays set,
// and only another write that binds the key to l.next counts as a renewal. Each write has the condition that the
// key is bound to l.backing. So one of the writes takes effect, and the later ones do not.
func (l *lease) rewrite(ctx context.Context, secs int64) error {
	if l.next == nil {
		b, err := l.s.grantBacking(ctx, max(secs, l.backing.seconds))
		if err != nil {
			return err
		}
		b.mark = l.backing.mark // the write binds it to b
		l.next = b
	}
	b := l.next
	resp, err := l.s.client.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(l.key), "=", l.backing.id)).
		Then(b.bind(l.key, l.encoded())...).Else(clientv3.OpGet(l.key, clientv3.WithKeysOnly())).Commit()
	switch {
	case unknownLease(err): // b has ended, so no write can bind the key to it
		l.next = nil
		return errUnproven
	case err != nil:
		return err
	case !resp.Succeeded:
		own := resp.Responses[0].GetResponseRange().Kvs
		if len(own) == 0 || own[0].Lease != int64(b.id) {
			_, err := l.prove(ctx)
			return cmp.Or(err, errUnproven)
		}
	}
	l.backing, l.next, l.shown, b.marked = b, nil, true, true
	return nil
}

// encoded returns the value of the key.
func (l *lease) encoded() string {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return encode(&l.record)
}

// show writes the time of the grant into the record. The waiter did not know it when it put the record. Only
// people read it, so show tries once: a cluster without space refuses the write, but still renews leases. The key
// stays bound to its etcd lease, even if the cluster carries out the write late.
func (l *lease) show() {
	ctx, cancel := l.s.request(l.s.ctx)
	defer cancel()
	_, _ = l.s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.rev)).
		Then(clientv3.OpPut(l.key, l.encoded(), clientv3.WithIgnoreLease())).Commit()
}
