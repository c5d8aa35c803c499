// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// sight is the watch of a waiter on what is in its way. It watches from now on: etcd
// looks through the past, for those who ask for it, only ten times a second. So what
// the waiter knew before the watch was there may be over, and it has to look again then.
type sight struct {
	key    string // of the rival, or what begins all keys of the name
	cancel context.CancelFunc

	mu   sync.Mutex // guards the fields below
	over bool       // it has seen reason to look, or has failed
	// Slots of which there are too many before us: their keys, how few of them must
	// be left, and the keys that went, with the revision.
	keys   map[string]bool
	enough int
	gone   map[string]int64
}

func (w *sight) close() {
	if w != nil && w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// rewatch bounds how often a watch that fails at once is made anew.
const rewatch = 100 * time.Millisecond

// watch watches what is in the way. A watch that does so already is kept.
func (l *lease) watch(seen *looked) {
	key := string(seen.rival.kv.Key)
	if seen.keys != nil {
		key = l.place.dir
	}
	tell := func() { l.s.tell(driver.Event{Kind: driver.Look, Name: l.name, Lease: l.id}) }
	if w := l.sight; w != nil && w.cancel != nil && w.key == key {
		if goes, enough := w.goesOn(seen); goes {
			if enough { // what has gone since the look has been heard of
				tell()
			}
			return
		}
	}
	l.sight.close()
	ctx, cancel := context.WithCancel(l.s.watching(l.s.ctx))
	w := &sight{key: key, cancel: cancel, gone: make(map[string]int64)}
	w.count(seen)
	l.sight = w
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithFilterPut()}
	if seen.keys != nil {
		_, to := l.place.all()
		opts = append(opts, clientv3.WithRange(to))
	}
	go func() {
		began := time.Now()
		if !w.follow(l.s.client.Watch(ctx, key, opts...), tell) {
			sleep(ctx, rewatch-time.Since(began)) // it has failed; do not hurry if it does again and again
		}
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		if ctx.Err() == nil {
			tell()
		}
	}()
}

// follow returns when there is reason to look again: true if it has seen it,
// false if the watch has failed, as without a leader.
func (w *sight) follow(events clientv3.WatchChan, tell func()) bool {
	for resp := range events {
		if resp.Err() != nil {
			return false
		}
		if resp.Created {
			tell()
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

// goesOn reports whether the watch is good for what a look has seen, and whether there is reason to look
// again.
func (w *sight) goesOn(seen *looked) (goes, enough bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false, false
	}
	return true, w.count(seen)
}

// count begins to count from what a look has seen, less what has gone since. It reports
// whether that is few enough to look again. mu is held, or w is new.
func (w *sight) count(seen *looked) bool {
	w.keys, w.enough = seen.keys, seen.enough
	for key, rev := range w.gone {
		if rev <= seen.rev {
			delete(w.gone, key)
		} else {
			delete(w.keys, key)
		}
	}
	return w.keys != nil && len(w.keys) <= w.enough
}
