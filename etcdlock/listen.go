// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// listen starts the listener, if it does not run yet. store.mu is held.
//
// Each lease has a mark beside its key, among those of its participant, which goes
// when the lease does. So one watch tells a participant which of its leases have
// ended without it: broken, or with an etcd lease that was revoked. It is quicker
// than the next renewal, and nothing depends on it.
func (s *store) listen() {
	if s.ear || s.ctx.Err() != nil {
		return
	}
	s.ear = true
	s.work.Go(func() {
		ctx := clientv3.WithRequireLeader(s.ctx)
		for s.ctx.Err() == nil {
			s.hear(ctx)
			s.sleep(s.ctx, nil, rewatch)
		}
	})
}

// hear looks which marks there are, and then watches them until that fails.
func (s *store) hear(ctx context.Context) {
	marks := s.mark(s.id, "")
	rctx, cancel := s.request(ctx)
	resp, err := s.client.Get(rctx, marks, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	cancel()
	if err != nil {
		return
	}
	there := make(map[string]bool, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		there[string(kv.Key)] = true
	}
	for _, g := range s.all() {
		if g.token <= resp.Header.Revision && !there[g.mark] {
			s.examine(g)
		}
	}
	// Cancelled if it ends, so that the client forgets it.
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	rev := resp.Header.Revision + 1
	for resp := range s.client.Watch(ctx, marks, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithFilterPut()) {
		if resp.Err() != nil {
			return
		}
		for _, ev := range resp.Events {
			lease, _ := strings.CutPrefix(string(ev.Kv.Key), marks)
			s.mu.Lock()
			g := s.grants[lease]
			s.mu.Unlock()
			if g != nil {
				s.work.Go(func() { s.examine(g) })
			}
		}
	}
}

// all returns the grants.
func (s *store) all() []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*grant
	for _, g := range s.grants {
		all = append(all, g)
	}
	return all
}

// examine looks whether the key of a grant is there, and tells if it is not.
func (s *store) examine(g *grant) {
	for pause := minPause; s.ctx.Err() == nil && g.over() == nil; pause = min(2*pause, maxPause) {
		ctx, cancel := s.request(s.ctx)
		_, err := g.prove(ctx)
		cancel()
		if err == nil {
			return
		}
		s.sleep(s.ctx, nil, pause)
	}
}

// forget takes out a grant that nobody was given.
func (s *store) forget(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.grants, g.lease)
}
