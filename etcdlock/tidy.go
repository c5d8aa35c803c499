// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	tidyEvery = 10 * time.Minute // without a reason
	tidySoon  = time.Second      // after an uncertain outcome; what is late mostly comes by then
	maxTidied = 200              // etcd leases that are looked at in one round
)

// reconcile compares the keys that the cluster has of this participant with those that its
// leases and attempts have, again and again, and deletes what none of them has. Undoing
// should leave nothing; but an etcd lease that is used again keeps alive whatever is
// bound to it, and a key that nobody owns keeps everybody out.
func (s *store) reconcile() {
	for {
		wait := tidyEvery*3/4 + rand.N(tidyEvery/2)
		select {
		case <-s.doubts:
			wait = tidySoon
		case <-time.After(wait):
			wait = 0
		case <-s.ctx.Done():
			return
		}
		sleep(s.ctx, wait)
		s.tidy()
	}
}

// doubt has reconcile look soon.
func (s *store) doubt() {
	select {
	case s.doubts <- struct{}{}:
	default:
	}
}

// tidy looks through the etcd leases that have a mark. Those that have none have no keys.
func (s *store) tidy() {
	marks := s.prefix + clientPart + s.id + "/"
	ctx, cancel := s.request(s.ctx)
	resp, err := s.client.Get(ctx, marks, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	cancel()
	if err != nil {
		return
	}
	rand.Shuffle(len(resp.Kvs), func(i, j int) { resp.Kvs[i], resp.Kvs[j] = resp.Kvs[j], resp.Kvs[i] })
	for _, kv := range resp.Kvs[:min(len(resp.Kvs), maxTidied)] {
		if id, err := strconv.ParseInt(strings.TrimPrefix(string(kv.Key), marks), 16, 64); err == nil {
			s.tidyLease(clientv3.LeaseID(id))
		}
	}
}

func (s *store) tidyLease(id clientv3.LeaseID) {
	ctx, cancel := s.request(s.ctx)
	defer cancel()
	resp, err := s.client.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
	if err != nil {
		return
	}
	for _, key := range resp.Keys {
		if strings.HasPrefix(string(key), s.layout.head) && s.stray(string(key), id) {
			s.sweep(ctx, string(key), id)
		}
	}
}

// stray reports whether a key that is bound to an etcd lease of ours is nobody's. Then that is
// not used again: keys are named after it, so nobody makes this one any more, and it
// can be deleted.
func (s *store) stray(key string, id clientv3.LeaseID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Keys are named after the etcd lease that the lease began with.
	named, _ := strconv.ParseInt(key[strings.LastIndexByte(key, '/')+1:], 16, 64)
	if l := s.backed[clientv3.LeaseID(named)]; l != nil && l.key == key {
		return false
	}
	s.tainted[id] = true
	for secs, all := range s.spares {
		s.spares[secs] = slices.DeleteFunc(all, func(b *backing) bool { return b.id == id })
	}
	return true
}

// sweep deletes a stray, if it is as it was seen.
func (s *store) sweep(ctx context.Context, key string, id clientv3.LeaseID) {
	resp, err := s.client.Get(ctx, key, clientv3.WithKeysOnly())
	if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Lease != int64(id) {
		return
	}
	_, _ = s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", resp.Kvs[0].ModRevision)).
		Then(clientv3.OpDelete(key)).Commit() // if not now, the next round finds it
}
