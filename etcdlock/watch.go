// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// sight is a waiter's watch on the keys in its way.
type sight struct {
	key    string // the rival's key, or the prefix of all keys of the name
	cancel context.CancelFunc
	over   atomic.Bool // the watch has failed, or the waiter has reason to look
}

func (w *sight) close() {
	if w != nil {
		w.cancel()
	}
}

// rewatch is the pause before a failed watch is made again.
const rewatch = 100 * time.Millisecond

// watch watches the keys in the way, unless a watch does so already.
//
// For one rival the watch begins now, because etcd serves watches of the past only ten times a second. The rival
// may have gone between the look and the watch, so the waiter looks again when the watch has begun. For slots the
// watch begins at the revision of the look.
func (l *lease) watch(seen *looked) {
	key := string(seen.rival.kv.Key)
	opts := []clientv3.OpOption{clientv3.WithFilterPut()}
	if seen.keys == nil {
		opts = append(opts, clientv3.WithCreatedNotify())
	} else {
		from, to := l.place.all()
		key, opts = from, append(opts, clientv3.WithRange(to), clientv3.WithRev(seen.rev+1))
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
			sleep(ctx, rewatch-time.Since(began)) // the watch may fail again and again
		}
		w.over.Store(true)
		if ctx.Err() == nil {
			tell()
		}
	}()
}

// follow returns true when the waiter has reason to look again. It returns false when the watch has failed, for
// example because there is no leader.
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

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
