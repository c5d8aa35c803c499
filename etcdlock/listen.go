// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// listen starts the listener, if it does not run yet. store.mu is held.
//
// Each etcd lease in use has a mark, among those of its participant, which goes when it
// does, and when the lease that it backs is broken. So one watch tells a participant
// which of its leases have ended without it. It is quicker than the next renewal, and
// nothing depends on it. A lease that is released leaves the mark there for the next.
func (s *store) listen() {
	if s.ear || s.ctx.Err() != nil {
		return
	}
	s.ear = true
	s.work.Go(func() {
		for s.ctx.Err() == nil {
			s.hear()
			s.sleep(s.ctx, nil, rewatch)
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
	there := make(map[string]bool, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		there[string(kv.Key)] = true
	}
	for _, g := range s.unmarked(there, resp.Header.Revision) {
		s.examine(g)
	}
	// Cancelled if it ends, so that the client forgets it.
	ctx, cancel := context.WithCancel(s.watching(s.ctx))
	defer cancel()
	rev := resp.Header.Revision + 1
	for resp := range s.client.Watch(ctx, marks, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithFilterPut()) {
		if resp.Err() != nil {
			return
		}
		for _, ev := range resp.Events {
			s.mu.Lock()
			g := s.grants[string(ev.Kv.Key)]
			s.mu.Unlock()
			if g != nil {
				s.work.Go(func() { s.examine(g) })
			}
		}
	}
}

// unmarked returns the grants up to a revision whose marks are not among those there.
func (s *store) unmarked(there map[string]bool, rev int64) []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []*grant
	for mark, g := range s.grants {
		if g.rev <= rev && !there[mark] {
			some = append(some, g)
		}
	}
	return some
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
	delete(s.grants, g.mark)
}
