// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// sight is the watch of a waiter on what is in its way.
type sight struct {
	key    string // of the rival, or what begins all keys of the name
	cancel context.CancelFunc
	over   atomic.Bool // it has seen reason to look, or has failed
}

func (w *sight) close() {
	if w != nil {
		w.cancel()
	}
}

// rewatch bounds how often a watch that fails at once is made anew.
const rewatch = 100 * time.Millisecond

// watch watches what is in the way. A watch that does so already is kept.
//
// It watches the rival from now on: etcd looks through the past, for those who ask for it, only ten times a second.
// So what the waiter knew before the watch was there may be over, and it has to look again then. Slots, of which
// there may be too many before it, are counted from the look on.
func (l *lease) watch(seen *looked) {
	key := string(seen.rival.kv.Key)
	opts := []clientv3.OpOption{clientv3.WithFilterPut()}
	if seen.keys == nil {
		opts = append(opts, clientv3.WithCreatedNotify())
	} else {
		_, to := l.place.all()
		key, opts = l.place.dir, append(opts, clientv3.WithRange(to), clientv3.WithRev(seen.rev+1))
	}
	if w := l.sight; w != nil && w.key == key && !w.over.Load() {
		return
	}
	l.sight.close()
	ctx, cancel := context.WithCancel(l.s.watching(l.s.ctx))
	w := &sight{key: key, cancel: cancel}
	l.sight = w
	tell := func() { l.s.tell(driver.Event{Kind: driver.Look, Name: l.name, Lease: l.id}) }
	go func() {
		began := time.Now()
		if !seen.follow(l.s.client.Watch(ctx, key, opts...), tell) {
			sleep(ctx, rewatch-time.Since(began)) // it has failed; do not hurry if it does again and again
		}
		w.over.Store(true)
		if ctx.Err() == nil {
			tell()
		}
	}()
}

// follow returns when there is reason to look again: true if it has seen it,
// false if the watch has failed, as without a leader.
func (l *looked) follow(events clientv3.WatchChan, tell func()) bool {
	for resp := range events {
		if resp.Err() != nil {
			return false
		}
		if resp.Created {
			tell()
		}
		for _, ev := range resp.Events {
			if delete(l.keys, string(ev.Kv.Key)); len(l.keys) <= l.enough {
				return true
			}
		}
	}
	return false
}

// sleep returns after d, or with ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
