// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sight is the watch of a waiter on what is in its way. It watches from now on: etcd
// looks through the past, for those who ask for it, only ten times a second. So what
// the waiter knew before the watch was there may be over, and it has to look again.
type sight struct {
	key    string // of the rival, or what begins all keys of the name
	cancel context.CancelFunc
	ready  chan struct{} // closed when the watch is there
	seen   chan struct{} // closed when there is reason to look again
	looked bool          // since the watch is there

	mu sync.Mutex
	// Slots of which there are too many before us: their keys, how few of them must
	// be left, and the keys that went, with the revision.
	keys   map[string]bool
	enough int
	gone   map[string]int64
}

// changed returns a channel that is closed when the waiter has to look again.
func (w *sight) changed() <-chan struct{} {
	switch {
	case w == nil || w.cancel == nil:
		return nil
	case !w.looked:
		return w.ready
	}
	return w.seen
}

func (w *sight) close() {
	if w != nil && w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// there reports whether the watch is there: what is read from now on is watched.
func (w *sight) there() bool { return w != nil && w.cancel != nil && closed(w.ready) }

// rewatch bounds how often a watch that fails at once is made anew.
const rewatch = 100 * time.Millisecond

// watch watches what is in the way. A watch that does so already is kept, and there
// says whether it was before the look.
func (a *attempt) watch(l *looked, there bool) {
	key := string(l.rival.kv.Key)
	if l.keys != nil {
		key = a.place.dir
	}
	if w := a.sight; w != nil && w.cancel != nil && w.key == key && !closed(w.seen) {
		// What has gone since the look has been heard of, and may have been enough.
		w.looked = !w.count(l) && there
		return
	}
	a.sight.close()
	ctx, cancel := context.WithCancel(a.s.watching(a.s.ctx))
	w := &sight{key: key, cancel: cancel, ready: make(chan struct{}), seen: make(chan struct{}), gone: make(map[string]int64)}
	w.count(l)
	a.sight = w
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithFilterPut()}
	if l.keys != nil {
		_, to := a.place.all()
		opts = append(opts, clientv3.WithRange(to))
	}
	go func() {
		began := time.Now()
		if !w.follow(a.s.client.Watch(ctx, key, opts...)) {
			select { // it has failed; do not hurry if it does again and again
			case <-time.After(rewatch - time.Since(began)):
			case <-ctx.Done():
			}
		}
		close(w.seen)
		if !closed(w.ready) {
			close(w.ready)
		}
	}()
}

// follow returns when there is reason to look again: true if it has seen it,
// false if the watch has failed, as without a leader.
func (w *sight) follow(events clientv3.WatchChan) bool {
	for resp := range events {
		if resp.Err() != nil {
			return false
		}
		if resp.Created {
			close(w.ready)
		}
		for _, ev := range resp.Events {
			if w.went(string(ev.Kv.Key), ev.Kv.ModRevision) {
				return true
			}
		}
	}
	return false
}

// went notes that a key has gone, and reports whether it is time to look.
func (w *sight) went(key string, rev int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		return true
	}
	w.gone[key] = rev
	delete(w.keys, key)
	return len(w.keys) <= w.enough
}

// count begins to count from what l has seen, less what has gone since. It reports
// whether that is few enough to look again.
func (w *sight) count(l *looked) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.enough = l.keys, l.enough
	for key, rev := range w.gone {
		if rev <= l.rev {
			delete(w.gone, key)
		} else {
			delete(w.keys, key)
		}
	}
	return w.keys != nil && len(w.keys) <= w.enough
}
