// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listen starts the listener, if it does not run yet. store.mu is held.
//
// Each lease has a mark, among those of its participant, which goes when its etcd lease
// does, and when it is broken. So one watch tells a participant
// which of its leases may have ended without it. It is quicker than the next renewal, and
// nothing depends on it. A lease that is released leaves the mark there for the next.
func (s *store) listen() {
	if s.ear || s.ctx.Err() != nil {
		return
	}
	s.ear = true
	s.work.Go(func() {
		for s.ctx.Err() == nil {
			s.hear()
			sleep(s.ctx, rewatch)
		}
	})
}

// hear looks which marks there are, and then watches them until that fails.
func (s *store) hear() {
	marks := s.prefix + clientPart + s.id + "/"
	rctx, cancel := s.request(s.ctx)
	resp, err := s.client.Get(rctx, marks, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	cancel()
	if err != nil {
		return
	}
	if names := s.unmarked(marks, resp.Kvs, resp.Header.Revision); len(names) > 0 {
		s.tell(missed(names))
	}
	// Cancelled if it ends, so that the client forgets it.
	ctx, cancel := context.WithCancel(s.watching(s.ctx))
	defer cancel()
	rev := resp.Header.Revision + 1
	for resp := range s.client.Watch(ctx, marks, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithFilterPut()) {
		if resp.Err() != nil {
			return
		}
		names := make(map[string]bool)
		for _, ev := range resp.Events {
			s.mu.Lock()
			if l := s.backed[markOf(marks, ev.Kv)]; l != nil {
				names[l.name] = true
			}
			s.mu.Unlock()
		}
		if len(names) > 0 {
			s.tell(missed(names))
		}
	}
}

// markOf returns the etcd lease that a key marks.
func markOf(marks string, kv *mvccpb.KeyValue) clientv3.LeaseID {
	id, _ := strconv.ParseInt(strings.TrimPrefix(string(kv.Key), marks), 16, 64) // 0 is none
	return clientv3.LeaseID(id)
}

// unmarked returns the names of the leases up to a revision whose marks are not among those there.
func (s *store) unmarked(marks string, there []*mvccpb.KeyValue, rev int64) map[string]bool {
	marked := make(map[clientv3.LeaseID]bool, len(there))
	for _, kv := range there {
		marked[markOf(marks, kv)] = true
	}
	names := make(map[string]bool)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.backed {
		if l.rev != 0 && l.rev <= rev && !marked[l.named] {
			names[l.name] = true
		}
	}
	return names
}
