// SPDX-License-Identifier: Apache-2.0

package etcdlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Inspect implements driver.Store.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	q, err := s.queue(ctx, name)
	if err != nil {
		return nil, s.failure(ctx, err, false)
	}
	info := q.info(name)
	for i := range info.Holders[:min(len(info.Holders), maxShown)] {
		info.Holders[i].Expires = s.expires(ctx, q[i].kv.Lease)
	}
	return info, nil
}

// queue reads the queue of one name.
func (s *store) queue(ctx context.Context, name string) (queue, error) {
	if err := s.layout.check(name); err != nil {
		return nil, &driver.Failure{Err: err, Lasting: true}
	}
	rctx, cancel := s.request(ctx)
	defer cancel()
	from, to := s.layout.place(name).all()
	resp, err := s.client.Get(rctx, from, clientv3.WithRange(to),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, s.failure(ctx, err, false)
	}
	return s.readQueue(resp.Kvs), nil
}

// expires returns the time at which an etcd lease ends, or the zero time if that is unknown.
func (s *store) expires(ctx context.Context, id int64) time.Time {
	ctx, cancel := s.request(ctx)
	defer cancel()
	resp, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if err != nil || resp.TTL <= 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(resp.TTL) * time.Second)
}

// page is the number of keys that each request asks for.
const page = 1000

// List implements driver.Store.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	names := make(map[string]queue)
	err := s.each(ctx, prefix, func(e entry) { names[e.name] = append(names[e.name], e) })
	if err != nil {
		return nil, s.failure(ctx, err, false)
	}
	var infos []*driver.Info
	for name, q := range names {
		slices.SortFunc(q, func(a, b entry) int { return cmp.Compare(a.kv.CreateRevision, b.kv.CreateRevision) })
		infos = append(infos, q.info(name))
	}
	slices.SortFunc(infos, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

// each calls f with each key of the names that begin with prefix.
func (s *store) each(ctx context.Context, prefix string, f func(entry), opts ...clientv3.OpOption) error {
	from := s.layout.head + escape(prefix)
	end := clientv3.GetPrefixRangeEnd(from)
	for more, rev := true, int64(0); more; {
		rctx, cancel := s.request(ctx)
		resp, err := s.client.Get(rctx, from, append(opts, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(rev))...)
		cancel()
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			if e, ok := s.parse(kv); ok {
				f(e)
			}
		}
		if more = resp.More; more {
			from, rev = string(resp.Kvs[len(resp.Kvs)-1].Key)+"\x00", resp.Header.Revision
		}
	}
	return nil
}

// Break implements driver.Store. It also puts a record of the break, which the client of the lease reads. The
// record is bound to the lease's etcd lease.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	for {
		q, err := s.queue(ctx, name)
		if err != nil {
			return s.failure(ctx, err, false)
		}
		holders := q[:q.holders()]
		if len(holders) == 0 {
			return driver.ErrReleased
		}
		i := slices.IndexFunc(holders, func(e entry) bool { return e.record.Lease == lease })
		if i < 0 {
			return &driver.HeldError{Info: q.info(name)}
		}
		word := clientv3.OpPut(s.brokenKey(lease), storekit.Record{Holder: *cmp.Or(by, &driver.Holder{}), Why: why}.String(), clientv3.WithLease(clientv3.LeaseID(holders[i].kv.Lease)))
		if done, err := s.remove(ctx, holders[i], word); done || err != nil {
			return err
		}
	}
}
