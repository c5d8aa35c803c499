// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sight is the watch of a waiter on what is in its way.
type sight struct {
	key    string // of the rival
	rev    uint64 // of the look that it follows
	all    bool   // slots: on all before us
	seen   chan struct{}
	cancel context.CancelFunc
}

// changed returns a channel that is closed when the waiter has to look again.
func (w *sight) changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.seen
}

func (w *sight) close() {
	if w != nil && w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// open reports whether the watch still sees.
func (w *sight) open() bool {
	if w == nil || w.cancel == nil {
		return false
	}
	select {
	case <-w.seen:
		return false
	default:
		return true
	}
}

// rewatch bounds how often a watch that fails at once is made anew.
const rewatch = 100 * time.Millisecond

// watch watches what is in the way, from just after l. A watch that does so already
// is kept.
func (a *attempt) watch(l *looked) {
	key := string(l.rival.kv.Key)
	if w := a.sight; w.open() && w.key == key && !w.all && l.keys == nil {
		return
	}
	a.sight.close()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(a.s.ctx))
	w := &sight{key: key, rev: l.rev, all: l.keys != nil, seen: make(chan struct{}), cancel: cancel}
	a.sight = w
	opts := []clientv3.OpOption{clientv3.WithRev(int64(l.rev) + 1)}
	if w.all {
		_, to := a.place.all()
		key = a.place.dir
		opts = append(opts, clientv3.WithRange(to), clientv3.WithFilterPut())
	} else if !a.req.Shared {
		opts = append(opts, clientv3.WithFilterPut()) // a reader wants to know of Downgrade
	}
	go func() {
		defer close(w.seen)
		began := time.Now()
		if !a.s.follow(ctx, key, opts, l) {
			select { // it has failed; do not hurry if it does again and again
			case <-time.After(rewatch - time.Since(began)):
			case <-ctx.Done():
			}
		}
	}()
}

// follow returns when there is reason to look again: true if it has seen it,
// false if the watch has failed, as after a compaction or without a leader.
func (s *store) follow(ctx context.Context, key string, opts []clientv3.OpOption, l *looked) bool {
	for resp := range s.client.Watch(ctx, key, opts...) {
		if resp.Err() != nil {
			return false
		}
		for _, ev := range resp.Events {
			if l.keys == nil {
				return true
			}
			if delete(l.keys, string(ev.Kv.Key)); len(l.keys) <= l.enough {
				return true
			}
		}
	}
	return false
}
