// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// usual returns a session to look with.
func (s *store) usual(ctx context.Context) (*session, error) {
	return s.session(ctx, purpose{ttl: s.ttl})
}

// content is a node's data.
type content struct {
	data []byte
	stat *zk.Stat
}

// maxReads bounds how many reads are under way at a time.
const maxReads = 64

// readAll reads nodes. One that is gone has no stat.
func (s *session) readAll(ctx context.Context, dir string, l line) ([]content, error) {
	found := make([]content, len(l))
	errs := make([]error, len(l))
	var all sync.WaitGroup
	room := make(chan struct{}, maxReads)
	for i, c := range l {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			found[i], errs[i] = call(ctx, s, func() (content, error) {
				data, stat, err := s.conn.Get(dir + "/" + c.name)
				if errors.Is(err, zk.ErrNoNode) {
					return content{}, nil
				}
				return content{data, stat}, err
			})
		})
	}
	all.Wait()
	return found, errors.Join(errs...)
}

// Inspect implements driver.Store.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	n, err := s.usual(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.sync(ctx, s.dir(name)); err != nil {
		return nil, readError(ctx, err)
	}
	info, err := n.inspect(ctx, name)
	return info, readError(ctx, err)
}

// sync has the server learn what the leader knows.
func (s *session) sync(ctx context.Context, path string) error {
	_, err := call(ctx, s, func() (string, error) { return s.conn.Sync(path) })
	return err
}

func (s *session) inspect(ctx context.Context, name string) (*driver.Info, error) {
	info := &driver.Info{Name: name, Holders: []driver.Held{}}
	l, found, err := s.lineOf(ctx, s.store.dir(name))
	if err != nil || len(l) == 0 {
		return info, err
	}
	n := l.holders()
	for i, c := range l {
		if found[i].stat == nil {
			continue
		}
		if i < n {
			h := held(c, found[i].data, found[i].stat)
			info.Holders = append(info.Holders, h)
			info.Token = max(info.Token, h.Token)
		} else {
			info.Waiters = append(info.Waiters, waiter(c, found[i].data, found[i].stat))
		}
	}
	return info, nil
}

// lineOf returns the queue of a name, as the server knows it, and what is in the
// nodes.
func (s *session) lineOf(ctx context.Context, dir string) (line, []content, error) {
	children, err := call(ctx, s, func() (listing, error) {
		l := s.children(dir)
		return l, l.err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	l, err := readLine(children.names)
	if err != nil {
		return nil, nil, err
	}
	found, err := s.readAll(ctx, dir, l)
	return l, found, err
}

// List implements driver.Store. It reads the nodes of all names that begin
// with prefix.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	n, err := s.usual(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.sync(ctx, s.root); err != nil {
		return nil, readError(ctx, err)
	}
	nodes, err := call(ctx, n, func() ([]string, error) {
		nodes, _, err := n.conn.Children(s.root)
		return nodes, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(ctx, err)
	}
	var names []string
	for _, node := range nodes {
		if name, ok := decodeName(node); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	infos, err := n.inspectAll(ctx, names)
	if err != nil {
		return nil, readError(ctx, err)
	}
	return slices.DeleteFunc(infos, func(i *driver.Info) bool { return len(i.Holders)+len(i.Waiters) == 0 }), nil
}

// inspectAll describes names, of many at a time. The server knows by now what the leader
// knew when it was asked.
func (s *session) inspectAll(ctx context.Context, names []string) ([]*driver.Info, error) {
	infos := make([]*driver.Info, len(names))
	errs := make([]error, len(names))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(maxReads, len(names)) {
		all.Go(func() {
			for i := int(next.Add(1) - 1); i < len(names) && ctx.Err() == nil; i = int(next.Add(1) - 1) {
				if infos[i], errs[i] = s.inspect(ctx, names[i]); errs[i] != nil {
					cancel() // the others are not needed
					return
				}
			}
		})
	}
	all.Wait()
	return infos, firstError(errs)
}

// firstError returns an error that is not only the end of the rest.
func firstError(errs []error) (first error) {
	for _, err := range errs {
		if first == nil || err != nil && errors.Is(first, context.Canceled) {
			first = err
		}
	}
	return first
}

// readError returns the error of a request that records nothing anyway.
func readError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return unavailable(explain(err))
}

// Break implements driver.Store. The lease's node is deleted in the same
// transaction that says by whom and why in the node of the name.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	n, err := s.usual(ctx)
	if err != nil {
		return err
	}
	if by == nil {
		by = &driver.Holder{}
	}
	dir := s.dir(name)
	for {
		err := n.breakLease(ctx, name, dir, lease, by, why)
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

func (s *session) breakLease(ctx context.Context, name, dir, lease string, by *driver.Holder, why string) error {
	if err := s.sync(ctx, dir); err != nil {
		return readError(ctx, err)
	}
	l, found, err := s.lineOf(ctx, dir)
	if err != nil {
		return readError(ctx, err)
	}
	info := &driver.Info{Name: name, Holders: []driver.Held{}}
	victim := ""
	for i, c := range l[:l.holders()] {
		if found[i].stat == nil {
			continue
		}
		h := held(c, found[i].data, found[i].stat)
		if h.Lease == lease {
			victim = c.name
		}
		info.Holders = append(info.Holders, h)
	}
	switch {
	case victim == "" && len(info.Holders) == 0:
		return driver.ErrReleased
	case victim == "":
		return &driver.HeldError{Info: info}
	}
	_, err = call(ctx, s, func() (none, error) {
		data, stat, err := s.conn.Get(dir)
		if err != nil {
			return none{}, err
		}
		news, err := json.Marshal(readBroken(data).add(victim, by, why))
		if err != nil {
			return none{}, err
		}
		_, err = s.conn.Multi(
			&zk.SetDataRequest{Path: dir, Data: news, Version: stat.Version},
			&zk.DeleteRequest{Path: dir + "/" + victim, Version: -1})
		return none{}, err
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case unknown(err):
		return fmt.Errorf("%w: the connection failed while the lease was broken: look again", uncertain(err))
	}
	return unavailable(explain(err))
}
