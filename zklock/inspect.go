// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// inspectSession returns the session that Inspect, List and Break use.
func (s *store) inspectSession(ctx context.Context) (*session, error) {
	return s.session(ctx, purpose{ttl: s.ttl})
}

// content is a node's data.
type content struct {
	data []byte
	stat *zk.Stat
}

// maxReads limits how many reads are under way.
const maxReads = 64

// each calls f for the numbers below n, in up to maxReads goroutines. The first error ends the other calls, and
// each returns it.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(maxReads, n) {
		all.Go(func() {
			for i := int(next.Add(1) - 1); i < n && ctx.Err() == nil; i = int(next.Add(1) - 1) {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// readAll reads the nodes of l. If a node has gone, its content has no stat.
func (s *session) readAll(ctx context.Context, dir string, l line) ([]content, error) {
	found := make([]content, len(l))
	return found, each(ctx, len(l), func(ctx context.Context, i int) (err error) {
		found[i], err = call(ctx, s, func() (content, error) {
			data, stat, err := s.conn.Get(dir + "/" + l[i].name)
			if errors.Is(err, zk.ErrNoNode) {
				return content{}, nil
			}
			return content{data, stat}, err
		})
		return err
	})
}

// endless reports whether the node exists and is not ephemeral.
func (c content) endless() bool { return c.stat != nil && c.stat.EphemeralOwner == 0 }

// holdersIn returns the leases of those nodes in l that still exist.
func holdersIn(l line, found []content) []driver.Held {
	all := []driver.Held{}
	for i, c := range l {
		if found[i].stat != nil {
			all = append(all, held(c, found[i].data, found[i].stat))
		}
	}
	return all
}

// Inspect implements driver.Store.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	n, err := s.inspectSession(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.sync(ctx, s.dir(name)); err != nil {
		return nil, explain(err)
	}
	info, err := n.inspect(ctx, name)
	return info, explain(err)
}

// sync makes the server catch up with the leader.
func (s *session) sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, func() (string, error) { return s.conn.Sync(path) })
	return err
}

func (s *session) inspect(ctx context.Context, name string) (*driver.Info, error) {
	l, found, err := s.lineOf(ctx, s.store.dir(name))
	if err != nil {
		return nil, err
	}
	n := l.holders()
	info := infoOf(name, holdersIn(l[:n], found))
	for i, c := range l[n:] {
		if at := found[n+i]; at.stat != nil {
			info.Waiters = append(info.Waiters, waiter(c, at.data, at.stat))
		}
	}
	return info, nil
}

func infoOf(name string, holders []driver.Held) *driver.Info {
	info := &driver.Info{Name: name, Holders: holders}
	for _, h := range holders {
		info.Token = max(info.Token, h.Token)
	}
	return info
}

// lineOf returns the queue of a name, as the server knows it, and the contents of its nodes.
func (s *session) lineOf(ctx context.Context, dir string) (line, []content, error) {
	all, err := s.children(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	l, err := readLine(all.names, all.stat.Czxid)
	if err != nil {
		return nil, nil, err
	}
	found, err := s.readAll(ctx, dir, l)
	return l, found, err
}

// List implements driver.Store. It reads the nodes of all names that begin with prefix.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	n, err := s.inspectSession(ctx)
	if err != nil {
		return nil, err
	}
	names, err := n.names(ctx, prefix)
	if err != nil {
		return nil, explain(err)
	}
	infos := make([]*driver.Info, len(names)) // names has made the server catch up with the leader
	if err := each(ctx, len(names), func(ctx context.Context, i int) (err error) {
		infos[i], err = n.inspect(ctx, names[i])
		return err
	}); err != nil {
		return nil, explain(err)
	}
	return slices.DeleteFunc(infos, func(i *driver.Info) bool { return len(i.Holders)+len(i.Waiters) == 0 }), nil
}

// names returns the lock names that have a node and begin with prefix.
func (s *session) names(ctx context.Context, prefix string) (names []string, err error) {
	if err := s.sync(ctx, s.store.root); err != nil {
		return nil, err
	}
	nodes, err := s.children(ctx, s.store.root)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes.names {
		if name, ok := decodeName(node); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Break implements driver.Store. One transaction deletes the node of the lease and records in the name's node who
// has broken the lease, and why.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	n, err := s.inspectSession(ctx)
	if err != nil {
		return err
	}
	for {
		err := n.breakLease(ctx, name, lease, cmp.Or(by, &driver.Holder{}), why)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

func (s *session) breakLease(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	dir := s.store.dir(name)
	if err := s.sync(ctx, dir); err != nil {
		return explain(err)
	}
	l, found, err := s.lineOf(ctx, dir)
	if err != nil {
		return explain(err)
	}
	holders := holdersIn(l[:l.holders()], found)
	i := slices.IndexFunc(l[:l.holders()], func(c child) bool { return c.guid() == guid(lease) || c.name == lease })
	switch {
	case len(holders) == 0:
		return driver.ErrReleased
	case i < 0 || found[i].stat == nil:
		return &driver.HeldError{Info: infoOf(name, holders)}
	}
	victim := l[i].name
	_, err = call(ctx, s, func() (none, error) {
		data, stat, err := s.conn.Get(dir)
		if err != nil {
			return none{}, err
		}
		news := storekit.JSON(readBroken(data).add(victim, by, why))
		_, err = s.conn.Multi(
			&zk.SetDataRequest{Path: dir, Data: news, Version: stat.Version},
			&zk.DeleteRequest{Path: dir + "/" + victim, Version: -1})
		return none{}, err
	})
	if err == nil || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return failure(ctx, err, unknown(err))
}
