// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// check returns an error that says what to do if a client cannot use nodes with these
// addresses and these options.
func (o *Options) check(addrs []string) error {
	n := len(addrs)
	quorum := o.quorum(n)
	switch {
	case n == 1 && !o.AllowSingle:
		return errors.New("redlock: one node is no quorum: name three or five, or use redislock (redis://) for one server")
	case n == 0:
		return errors.New("redlock: 0 nodes: name an odd number, such as three or five")
	case n%2 == 0 && o.Quorum == 0:
		return fmt.Errorf("redlock: %d nodes: name an odd number, three or more: with %d nodes no more may fail than with %d", n, n, n-1)
	case quorum <= n/2 || quorum > n:
		return fmt.Errorf("redlock: Quorum %d of %d nodes: use %d to %d", quorum, n, n/2+1, n)
	case o.WaitReplicas != 0:
		return errReplicas
	case o.Mode != "":
		return errMode
	case o.NodeTimeout < 0:
		return fmt.Errorf("redlock: NodeTimeout %v is negative: use one such as 100ms, or 0 for the default", o.NodeTimeout)
	case o.ConnectTimeout < 0:
		return fmt.Errorf("redlock: the connect timeout %v is negative: use one such as 5s, or 0 for the default", o.ConnectTimeout)
	case o.maxTTL() < driver.MinTTL:
		return fmt.Errorf("redlock: MaxTTL %v is too short: use %v or more", o.maxTTL(), driver.MinTTL)
	}
	if err := namedTwice(addrs); err != nil {
		return fmt.Errorf("redlock: %w", err)
	}
	return checkTTL(o.TTL, o.maxTTL())
}

func namedTwice(addrs []string) error {
	for i, addr := range addrs {
		if slices.Contains(addrs[:i], addr) {
			return fmt.Errorf("%s is named twice: name each node once", addr)
		}
	}
	return nil
}

func (o *Options) quorum(n int) int { return cmp.Or(o.Quorum, n/2+1) }

func (o *Options) maxTTL() time.Duration { return cmp.Or(o.MaxTTL, pawl.DefaultTTL) }

// checkNodes asks all nodes for their state. A node that cannot be one of N independent
// masters counts as down; the error says why if no quorum is left.
func (d *store) checkNodes(ctx context.Context) error {
	failed, odd, alive, unused := d.sorted(d.statuses(ctx))
	if len(odd) > len(d.members)-d.quorum {
		return fmt.Errorf("redlock: %s: %w", odd[0].addr, odd[0].err)
	}
	if err := d.heard(failed); err != nil {
		return leftBy(ctx, err)
	}
	if hidden := len(failed) - len(odd); hidden > 0 {
		d.logged(fmt.Errorf("%d of %d nodes have not answered, and %d have to: %v", len(failed), len(d.members), d.quorum, failed))
	}
	if err := d.recordPattern(ctx, alive); err != nil || !d.assumeNew {
		return err
	}
	return d.bless(ctx, unused)
}

// sorted splits the nodes by what they answered. failed nodes count as down; the odd ones among them did answer. alive
// nodes are good; no client has used the unused ones among them.
func (d *store) sorted(all []Status) (failed, odd misses, alive, unused []*redisNode) {
	runs := make(map[string]string)
	for i, s := range all {
		m := d.members[i]
		if other := runs[s.Run]; s.Err == nil && s.Run != "" && other != "" {
			s.Err = &oddNode{fmt.Sprintf("it is the same server as %s (run_id %s)", other, s.Run), "name each server once"}
		}
		if s.Err != nil {
			failed.add(m, s.Err)
			if isOdd(s.Err) {
				odd.add(m, s.Err)
				m.logOdd(s.Err)
			}
			continue
		}
		r, ok := m.Node.(*redisNode)
		if ok && m.countsAsDown(r) {
			continue
		}
		runs[s.Run] = s.Addr
		if ok {
			alive = append(alive, r)
		}
		if ok && s.MaxTTL == 0 {
			unused = append(unused, r)
		}
	}
	return failed, odd, alive, unused
}

// countsAsDown reports whether a node that answers counts as down, and logs why. If the nodes disagree with the client,
// a request for a lease returns that error, and the log needs no line.
func (m *member) countsAsDown(r *redisNode) bool {
	err := r.odd()
	if err != nil && !errors.Is(err, driver.ErrDisagree) {
		m.logOdd(err)
	}
	return err != nil
}

// isOdd reports whether err comes from a node that answers but that this client cannot use.
func isOdd(err error) bool {
	var odd *oddNode
	return errors.As(err, &odd) || errors.Is(err, ErrNotIndependent) || errors.Is(err, driver.ErrDisagree)
}

// bless blesses nodes that no client has used; see redislock.Options.AssumeNew.
func (d *store) bless(ctx context.Context, nodes []*redisNode) error {
	return cmp.Or(allAtOnce(nodes, func(n *redisNode) error { return n.server.Change(ctx, epoch.Trust) })...)
}

// recordPattern records the client's pattern at nodes that have recorded no other one. The client has asked all nodes
// before that: a client that is refused must leave no record.
func (d *store) recordPattern(ctx context.Context, nodes []*redisNode) error {
	if d.layout.Pattern == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	return cmp.Or(allAtOnce(nodes, func(n *redisNode) error {
		if err := n.server.Agree(ctx, true); errors.Is(err, driver.ErrDisagree) {
			return err
		}
		return nil // a node that fails now counts like one that was down before
	})...)
}

// Nodes asks all nodes for their state, and returns the answers in the order of the
// nodes. It waits for at most ConnectTimeout. Once a quorum has answered, it waits for the
// others only for a grace. If a node answers but counts as down, its Err says why.
func (d *store) Nodes(ctx context.Context) []Status {
	all := d.statuses(ctx)
	for i := range all {
		if r, ok := d.members[i].Node.(*redisNode); ok {
			all[i].judge(r.odd())
		}
	}
	return all
}

func (d *store) statuses(ctx context.Context) []Status {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	all := make([]Status, len(d.members))
	for i, m := range d.members {
		all[i] = Status{Addr: m.Addr(), Err: errSilent}
	}
	replies := each(d, func(m *member) (nodewire.Status, error) {
		began := driver.Now()
		is, err := m.Status(ctx)
		if m.trip.Load() == 0 { // Status takes several round trips: an estimate may be too long, but not too short
			m.timed(began, &err)
		}
		return is, err
	})
	_ = gather(ctx, d, nil, replies, d.behind, func(r reply[nodewire.Status]) bool {
		if all[r.node].Err = r.err; r.err == nil {
			all[r.node] = Status(r.answer)
		}
		return false
	})
	return all
}

// Describe implements driver.Store. The store is closed while the nodes in quarantine leave
// no quorum.
func (d *store) Describe(ctx context.Context) (*driver.StoreInfo, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	info, waits := &driver.StoreInfo{}, []time.Duration(nil)
	var failed misses
	for i, s := range d.statuses(ctx) {
		if s.Err != nil {
			failed.add(d.members[i], s.Err)
			continue
		}
		if s.MaxTTL > info.MaxTTL {
			info.MaxTTL, info.SetBy = s.MaxTTL, s.SetBy
		}
		if s.Closed > 0 {
			waits = append(waits, s.Closed)
		}
	}
	if err := d.heard(failed); err != nil {
		return nil, err
	}
	if len(d.members)-len(waits) < d.quorum {
		info.Closed = d.quorumth(waits)
		info.Do = "if no lease from before is held any more, redlock.Bless (pawl bless) opens them at once"
		info.Why = fmt.Sprintf("%d of %d nodes have restarted, have lost their data or are other servers, and may have forgotten leases", len(waits), len(d.members))
	}
	return info, nil
}
