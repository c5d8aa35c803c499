// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// maxShown limits how many holders are read only to show them to people.
const maxShown = 16

// queue contains the keys of one name in the order of their creation.
type queue []entry

// readQueue returns the queue of kvs, which are in the order of their creation.
func (s *store) readQueue(kvs []*mvccpb.KeyValue) queue {
	var q queue
	for _, kv := range kvs {
		if e, ok := s.parse(kv); ok {
			q = append(q, e)
		}
	}
	return q
}

// holders returns the number of keys in q that hold the name.
func (q queue) holders() int {
	return storekit.Front(q, func(e entry) storekit.Sharing { return e.sharing })
}

// find returns the index of the key in q, or -1.
func (q queue) find(key string) int {
	return slices.IndexFunc(q, func(e entry) bool { return string(e.kv.Key) == key })
}

// inTheWay returns an error if a new request cannot be granted.
func (q queue) inTheWay(req *driver.Request) error {
	own := storekit.SharingOf(req)
	if all := append(slices.Clip(q), entry{sharing: own}); all.holders() == len(all) {
		return nil
	}
	if err := own.Agrees(q[0].sharing); err != nil {
		return err
	}
	if err := q.endless(); err != nil {
		return err
	}
	return &driver.HeldError{Info: q.info(req.Name)}
}

// endless returns an error if a key in the queue has no etcd lease. Another program has made it, or a person by
// hand. The cluster never deletes it, so the name cannot be granted until somebody does.
func (q queue) endless() error {
	i := slices.IndexFunc(q, func(e entry) bool { return e.kv.Lease == 0 })
	if i < 0 {
		return nil
	}
	text, do := q[i].endless()
	return fmt.Errorf("etcdlock: %s; %s", text, do)
}

// endless returns a description of a key without an etcd lease, and advice.
func (e entry) endless() (text, do string) {
	key := string(e.kv.Key)
	return fmt.Sprintf("the key %q has no etcd lease and is of another program: the lock %q cannot be granted", key, e.name),
		"see whose it is, then: etcdctl del " + storekit.ShellQuote(key)
}

// info returns the queue as a driver.Info.
func (q queue) info(name string) *driver.Info {
	info := &driver.Info{Name: name, Holders: []driver.Held{}}
	n := q.holders()
	for _, e := range q[:n] {
		info.Holders = append(info.Holders, e.held())
		info.Token = max(info.Token, driver.Token(tokenOf(e.kv.CreateRevision)))
	}
	for _, e := range q[n:] {
		info.Waiters = append(info.Waiters, driver.Waiter{
			Holder: e.record.Holder, Lease: e.record.Lease, Since: instant(e.record.Since), Why: e.record.Why, Holds: e.record.Holds,
			Shared: e.sharing.Shared, Slots: e.sharing.Slots,
		})
	}
	return info
}

func (e entry) held() driver.Held {
	return driver.Held{
		Holder: e.record.Holder, Lease: e.record.Lease, Token: driver.Token(tokenOf(e.kv.CreateRevision)), Why: e.record.Why,
		Acquired: instant(cmp.Or(e.record.Acquired, e.record.Since)), Shared: e.sharing.Shared, Slots: e.sharing.Slots,
		Keeps: e.record.Keeps,
	}
}

// instant returns a time in a record as a time.Time.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
