// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// listen starts the listener, if it does not run yet, for what happens after a revision. store.mu is held.
//
// Each lease has a mark, among those of its participant, which goes when its etcd lease
// does, and when it is broken. So one watch tells a participant
// which of its leases may have ended without it. It is quicker than the next renewal, and
// nothing depends on it. A lease that is released leaves the mark there for the next.
func (s *store) listen(rev int64) {
	if s.ear || s.ctx.Err() != nil {
		return
	}
	s.ear = true
	s.work.Go(func() {
		for from := rev + 1; s.ctx.Err() == nil; from = 0 {
			s.hear(from)
			sleep(s.ctx, rewatch)
		}
	})
}

// hear watches the marks from a revision until that fails. From now on, which is 0, what was before is missed.
func (s *store) hear(rev int64) {
	marks := s.prefix + clientPart + s.id + "/"
	// Cancelled if it ends, so that the client forgets it.
	ctx, cancel := context.WithCancel(s.watching(s.ctx))
	defer cancel()
	for resp := range s.client.Watch(ctx, marks, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithCreatedNotify(), clientv3.WithFilterPut()) {
		names := make(map[string]bool)
		s.mu.Lock()
		for _, ev := range resp.Events {
			if l := s.backed[markOf(marks, ev.Kv)]; l != nil {
				names[l.name] = true
			}
		}
		for _, l := range s.backed {
			if resp.Created && rev == 0 {
				names[l.name] = true
			}
		}
		s.mu.Unlock()
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
