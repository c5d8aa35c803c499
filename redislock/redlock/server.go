// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
	"github.com/pawl-go/pawl/redislock/internal/conn"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
	"github.com/pawl-go/pawl/redislock/internal/keys"
)

// underWay is how long a request may be under way to a server, as in package redislock.
const underWay = 5 * time.Minute

var modes = [...]string{nodewire.Take: "take", nodewire.Heal: "heal"}

// redisNode is a Redis server as a Node.
type redisNode struct {
	server *epoch.Server
	layout *keys.Layout
	roster *roster                                // nil of a node on its own, in tests
	at     int                                    // the index of this node in roster
	told   atomic.Pointer[func(nodewire.Message)] // the argument of Tell; nil before Tell is called
	silent bool                                   // the node did not answer in time when the client connected
	deaf   bool                                   // the node left the last request unanswered: Close need not wait
}

var _ nodewire.Node = (*redisNode)(nil)

func newRedisNode(client rueidis.Client, conf epoch.Config) *redisNode {
	n := &redisNode{layout: conf.Layout}
	conf.Commands, conf.Hear, conf.Opened = commands, n.hear, n.heard
	n.server = epoch.New(client, conf)
	n.server.Listen()
	return n
}

// Addr implements Node.
func (n *redisNode) Addr() string { return n.server.Addr }

// named puts the address of the node before err, which may be nil.
func (n *redisNode) named(err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", n.Addr(), err)
	}
	return err
}

func (n *redisNode) key(name string) string { return n.layout.Lock(name) }

// run runs a script. It also returns the id of the server's run. Its errors mean what
// nodewire.Node says.
func (n *redisNode) run(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, boot string, err error) {
	r, fail := n.server.Run(ctx, script, keys, args)
	switch {
	case fail == nil:
		return r.Parts, r.RunID(), nil
	case fail.Maybe, errors.Is(fail.Err, driver.ErrUnavailable):
		return nil, "", fail.Err
	}
	return nil, "", unavailable(fail.Err)
}

var errGarbled = fmt.Errorf("%w: the server's answer is not that of the script", driver.ErrUncertain)

// keysOf returns the keys beside a lock. It cuts them from one string, to allocate once.
func (n *redisNode) keysOf(lock, lease string) (floor, mark, listeners, wishes string) {
	key := n.layout.Beside(lock)
	all := key + floorSuffix + key + listenersSuffix + key + wishesSuffix + key + markSuffix + lease
	i := len(key) + len(floorSuffix)
	j := i + len(key) + len(listenersSuffix)
	k := j + len(key) + len(wishesSuffix)
	return all[:i], all[k:], all[i:j], all[j:k]
}

// Propose implements Node.
func (n *redisNode) Propose(ctx context.Context, p nodewire.Proposal) (nodewire.Vote, error) {
	key := n.key(p.Name)
	floor, mark, listeners, wishes := n.keysOf(key, p.Lease)
	mode := modes[p.Mode]
	if p.Queued {
		mode += " queued"
	}
	reply, boot, err := n.granting(ctx, proposeScript, []string{n.server.EpochKey(), floor, mark, key, listeners, wishes},
		[]string{"", mode, epoch.Bit(p.Shared), epoch.Millis(p.TTL), n.server.ID, p.Record,
			p.Lease, strconv.FormatUint(p.Token, 10)})
	if err != nil {
		return nodewire.Vote{}, err
	}
	v := nodewire.Vote{Run: boot, Has: epoch.Code(reply) == 1}
	if v.Has {
		v.Floor, v.Stored = p.Token, len(reply) == 1
		if !v.Stored {
			v.Floor, v.Writer = readFloor(text(reply[1]))
		}
		return v, nil
	}
	if len(reply) < 4 {
		return nodewire.Vote{}, errGarbled
	}
	v.Closed, v.Ended, v.News = millis(reply[1]), count(reply[2]) == 1, text(reply[3])
	v.State, _, err = readState(reply[4:])
	return v, err
}

// End implements Node.
func (n *redisNode) End(ctx context.Context, e nodewire.Ending) (had, next bool, err error) {
	key := n.key(e.Name)
	floor, mark, listeners, wishes := n.keysOf(key, e.Lease)
	remember := time.Duration(0)
	if e.Bar || e.News != "" {
		remember = max(n.server.Limit.Longest(), underWay)
	}
	reply, _, err := n.run(ctx, endScript, []string{n.server.EpochKey(), key, floor, listeners, wishes, mark},
		[]string{epoch.Millis(remember), e.News, epoch.Bit(e.Held), n.server.Channel, e.Lease, strconv.FormatUint(e.Next, 10)})
	if err != nil {
		return false, false, err
	}
	return epoch.Code(reply) >= 1, epoch.Code(reply) == 2, nil
}

// Enqueue implements Node.
func (n *redisNode) Enqueue(ctx context.Context, p nodewire.Place) (nodewire.State, error) {
	key := n.key(p.Name)
	floor, mark, listeners, wishes := n.keysOf(key, p.Lease)
	place := strconv.FormatUint(p.Place, 10)
	if p.Shared {
		place = "-"
	}
	reply, _, err := n.granting(ctx, enqueueScript, []string{n.server.EpochKey(), key, floor, mark, listeners, wishes},
		[]string{"", p.Lease, place, strconv.FormatUint(p.Token, 10), strconv.Itoa(p.Seq), epoch.Millis(p.TTL), n.server.ID, p.Record, epoch.Millis(p.For), epoch.Millis(p.Wish)})
	if err != nil {
		return nodewire.State{}, err
	}
	if len(reply) < 2 {
		return nodewire.State{}, errGarbled
	}
	s, _, err := readState(reply[2:])
	s.Ahead = count(reply[1])
	return s, err
}

// Read implements Node.
func (n *redisNode) Read(ctx context.Context, names []string) ([]nodewire.State, error) {
	var keys []string
	for _, name := range names {
		key := n.key(name)
		by := n.layout.Beside(key)
		keys = append(keys, key, by+floorSuffix, by+listenersSuffix, by+wishesSuffix)
	}
	reply, _, err := n.run(ctx, readScript, keys, nil)
	if err != nil {
		return nil, err
	}
	states, rest := make([]nodewire.State, len(names)), reply[1:]
	for i := range states {
		if states[i], rest, err = readState(rest); err != nil {
			return nil, err
		}
		if states[i].Queue, rest, err = readQueue(rest); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// List implements Node. It scans all keys of the server, a thousand at a time. So other
// requests run in between, and a scan of a full server takes long.
func (n *redisNode) List(ctx context.Context, prefix string) ([]string, error) {
	pattern := n.layout.Patterns(prefix, "")[0]
	found := make(map[string]bool) // SCAN may return a key twice
	for cursor := uint64(0); ; {
		page, err := n.server.Do(ctx, n.server.Client.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return nil, conn.NotBound(ctx, conn.Lacking(err, "scan")).Err
		}
		for _, key := range page.Elements {
			if name, ok := n.layout.Name(key); ok && strings.HasPrefix(name, prefix) {
				found[name] = true
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	return names, nil
}

// Status implements Node.
func (n *redisNode) Status(ctx context.Context) (nodewire.Status, error) {
	is, err := n.server.State(ctx, []string{n.server.EpochKey()}, false)
	if err != nil {
		return nodewire.Status{}, independent(err)
	}
	if err := n.server.Agree(ctx, false); err != nil {
		return nodewire.Status{}, err
	}
	if err := n.hears(ctx); err != nil {
		return nodewire.Status{}, err
	}
	s := nodewire.Status{Addr: n.Addr(), Run: is.Run, Closed: is.Closed, MaxTTL: is.TTL, SetBy: is.Holder()}
	if n.roster == nil {
		return s, nil
	}
	e, err := n.record(ctx, "", entry{}, 0)
	if s.ID = e.self; e.founded() {
		s.Set = e.set.String()
	}
	if e.state == isClosed {
		s.Changing = fmt.Sprintf("to %s, by %s", strings.Join(e.addrN, ", "), e.by)
	}
	return s, err
}

// hears waits until the server's messages can be heard. If the server refuses the
// subscription, hears returns that error: waiters would get no message, and would look
// every other second.
func (n *redisNode) hears(ctx context.Context) error {
	for {
		now, refused := n.server.Subscription().Session()
		if now != (conn.Session{}) || refused != nil {
			return refused
		}
		select {
		case <-n.server.Subscription().Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// independent adds ErrNotIndependent to the error of a server that can never be one
// of N independent masters.
func independent(err error) error {
	if strings.Contains(err.Error(), "READONLY") || errors.Is(err, epoch.ErrCluster) || errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrNotIndependent, err)
	}
	return err
}

// Close implements Node.
func (n *redisNode) Close() error {
	n.server.Hush()
	if n.deaf && n.server.Ours() {
		n.server.Drop(n.server.Made()) // rueidis would wait for a second; requests that were sent arrive all the same
	}
	n.server.Close()
	return nil
}
