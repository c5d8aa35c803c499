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

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// usual returns a session to look with.
func (s *store) usual(ctx context.Context) (*session, error) { return s.session(ctx, s.ttl) }

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
			found[i], errs[i] = call(ctx, func() (content, error) {
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

// Inspect implements driver.Inspector.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	n, err := s.usual(ctx)
	if err != nil {
		return nil, err
	}
	info, err := n.inspect(ctx, name)
	return info, readError(ctx, err)
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

// lineOf returns the queue of a name, as the leader knows it, and what is in the
// nodes.
func (s *session) lineOf(ctx context.Context, dir string) (line, []content, error) {
	names, err := call(ctx, func() ([]string, error) {
		if _, err := s.conn.Sync(dir); err != nil {
			return nil, err
		}
		names, _, err := s.conn.Children(dir)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	l, err := readLine(names)
	if err != nil {
		return nil, nil, err
	}
	found, err := s.readAll(ctx, dir, l)
	if err == nil && len(l) > 0 && l[0].kind == (kind{}) && readRecord(l[0], found[0].data).Downgraded {
		l.downgrade()
	}
	return l, found, err
}

// List implements driver.Inspector. It reads the nodes of all names that begin
// with prefix.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	n, err := s.usual(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := call(ctx, func() ([]string, error) {
		if _, err := n.conn.Sync(s.root); err != nil {
			return nil, err
		}
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
	var infos []*driver.Info
	for _, name := range names {
		info, err := n.inspect(ctx, name)
		if err != nil {
			return nil, readError(ctx, err)
		}
		if len(info.Holders)+len(info.Waiters) > 0 {
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// readError returns the error of a request that records nothing anyway.
func readError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return unavailable(explain(err))
}

// Break implements driver.Inspector. The lease's node is deleted in the same
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
	_, err = call(ctx, func() (none, error) {
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
