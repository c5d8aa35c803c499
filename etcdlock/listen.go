// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// listen starts the listener, unless it runs. The listener hears the events after the revision rev. store.mu is
// held.
//
// Each lease has a mark, which is a key among the marks of its client. etcd deletes the mark when the etcd lease
// ends, Break deletes it, and askBack puts it again. So with one watch a client learns which of its leases may
// have ended, and which of them others want. A renewal would find this out, too, but later. A lease that is
// released leaves its mark to the next lease.
func (s *store) listen(rev int64) {
	if s.hearing || s.ctx.Err() != nil {
		return
	}
	s.hearing = true
	s.work.Go(func() {
		for from := rev + 1; s.ctx.Err() == nil; from = 0 {
			s.hear(from)
			sleep(s.ctx, rewatch)
		}
	})
}

// hear watches the marks from the revision rev on, until the watch fails. If rev is 0, the watch begins now, and
// may have missed events.
func (s *store) hear(rev int64) {
	marks := s.mark(s.id, "")
	// Without cancel the etcd client would keep the watch.
	ctx, cancel := context.WithCancel(s.watching(s.ctx))
	defer cancel()
	for resp := range s.client.Watch(ctx, marks, clientv3.WithPrefix(), clientv3.WithRev(rev), clientv3.WithCreatedNotify()) {
		for _, e := range s.heard(marks, resp, resp.Created && rev == 0) {
			s.tell(e)
		}
	}
}

// heard returns the events in a watch response for the leases of this client. If all is set, events may have been
// missed for every lease.
func (s *store) heard(marks string, resp clientv3.WatchResponse, all bool) (events []driver.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[string]bool)
	for _, ev := range resp.Events {
		id, _ := strconv.ParseInt(strings.TrimPrefix(string(ev.Kv.Key), marks), 16, 64) // on an error id is 0, which no lease has
		l := s.backed[clientv3.LeaseID(id)]
		if l == nil {
			continue
		}
		var w want
		if ev.Type == clientv3.EventTypeDelete {
			names[l.name] = true
		} else if json.Unmarshal(ev.Kv.Value, &w) == nil && w.Lease == l.id {
			events = append(events, driver.Event{Kind: driver.Wanted, Name: l.name, Lease: l.id, Waits: w.Waits})
		}
	}
	for _, l := range s.backed {
		if all {
			names[l.name] = true
		}
	}
	if len(names) > 0 {
		events = append(events, driver.Event{Kind: driver.Missed, Concerns: func(name string) bool { return names[name] }})
	}
	return events
}
