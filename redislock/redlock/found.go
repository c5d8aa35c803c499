// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// The first client that asks for a lease founds the store, in four steps: each node gets a
// random id, then a claim for the set of these ids; then it keeps the claim; then it opens.
// A step begins when all nodes that answer, at least a quorum, have made the step before. So
// all nodes that open have the same set: if two clients with the same nodes claim two sets,
// there is a node that both clients need, and it accepts one claim. A node that does not
// answer has its address as its id.

// claimLasts is how long a node without a store keeps its id, and a claim.
const claimLasts = 2 * time.Second

// errClaimed says that another client founds the store at the same time.
var errClaimed = errors.New("another client begins to use the nodes at the same time: try again")

// settle returns nil if the nodes belong to a store. If they belong to none, it founds one.
func (d *store) settle(ctx context.Context) error {
	r := d.roster
	if r == nil || r.settled.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	r.founding.Lock()
	defer r.founding.Unlock()
	for {
		err := d.found(ctx)
		switch {
		case r.settled.Load():
			return nil
		case errors.Is(err, errClaimed) && d.sleep(ctx, d.jitter(claimLasts/10)) == nil:
			continue
		case errors.Is(context.Cause(ctx), context.Canceled):
			return ctx.Err()
		case errors.Is(err, driver.ErrDisagree):
			return fmt.Errorf("redlock: %w", err)
		}
		return unavailable(fmt.Errorf("no client has used these nodes yet: %w", err))
	}
}

// found leads the nodes that answer through the states.
func (d *store) found(ctx context.Context) error {
	r := d.roster
	look, cancel := context.WithTimeout(ctx, max(lookTimeout, trips*d.trip()))
	defer cancel()
	var failed misses
	var present []*redisNode
	for i, err := range allAtOnce(r.nodes, func(n *redisNode) error {
		_, err := n.record(look, "", entry{}, 0)
		return err
	}) {
		if err != nil {
			failed.add(d.members[i], err)
		} else {
			present = append(present, r.nodes[i])
		}
	}
	if err := d.heard(failed); err != nil {
		return err
	}
	var set nodeSet
	var addrs []string
	for _, state := range founding[1:] {
		if r.settled.Load() {
			return nil
		}
		if state == isClaimed {
			var err error
			if set, addrs, err = r.claim(present); err != nil {
				return err
			}
		}
		if err := errors.Join(allAtOnce(present, func(n *redisNode) error {
			return n.named(n.advance(ctx, state, set, addrs))
		})...); err != nil {
			return err
		}
	}
	return nil
}

// claim returns the set that the nodes found, and the addresses of its nodes. All present nodes have ids already.
func (r *roster) claim(present []*redisNode) (set nodeSet, addrs []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := make(map[string]string)
	for i, addr := range r.addrs {
		id := "@" + addr
		if slices.Contains(present, r.nodes[i]) {
			e := r.seen[i]
			if id = e.self; e.state == isKept {
				set, addrs = e.set, e.addrs // perhaps from a client that stopped after this step
			}
		}
		if other := at[id]; other != "" {
			return nodeSet{}, nil, storekit.Disagreef("%s and %s are the same server: name each server once", other, addr)
		}
		at[id] = addr
	}
	if set.ids != nil {
		return set, addrs, nil
	}
	set = newSet(r.quorum, slices.Collect(maps.Keys(at)))
	for _, id := range set.ids {
		addrs = append(addrs, at[id])
	}
	return set, addrs, nil
}

// advance leads a node to state, from the state before. If the node is further already, for the same set, advance leaves it alone.
func (n *redisNode) advance(ctx context.Context, state string, set nodeSet, addrs []string) error {
	is, err := n.record(ctx, "", entry{}, 0)
	if err != nil {
		return err
	}
	next, lasts := entry{self: is.self, store: storeID(set), gen: 1, set: set, state: state, addrs: addrs}, time.Duration(0)
	was, at := slices.Index(founding, state)-1, slices.Index(founding, is.state)
	switch state {
	case isNew:
		next, lasts = entry{self: strings.ToLower(rand.Text()[:10]), state: isNew}, claimLasts
	case isClaimed:
		lasts = claimLasts
		if !set.has(next.self) { // another client has begun, and this node was down then, or its claim has lapsed
			next.self = next.idAt(n.Addr())
		}
		if next.self == "" && at == was {
			return storekit.Disagreef("another client has begun to use the nodes, and does not name this one so: name the nodes as it does (%s)", strings.Join(addrs, ", "))
		}
	}
	if at == was && (is.set.ids == nil || is.set.equal(set)) {
		if is, err = n.record(ctx, is.raw, next, lasts); err != nil {
			return err
		}
		at = slices.Index(founding, is.state)
	}
	if at > was && (state == isNew || is.set.equal(set)) {
		return nil
	}
	return n.claimed(is)
}

// claimed returns the error for a node that another client leads through the states.
func (n *redisNode) claimed(is entry) error {
	if is.state == isKept && !slices.Equal(slices.Sorted(slices.Values(is.addrs)), slices.Sorted(slices.Values(n.roster.addrs))) {
		return storekit.Disagreef("a client with other nodes (%s) has begun to use it: name the same nodes, or delete %q there", strings.Join(is.addrs, ", "), n.server.EpochKey()+nodesSuffix)
	}
	return errClaimed
}

// record reads the node's record of its set. If next has an id, and the record is still was, record replaces it by next. It
// returns what the node has after that.
func (n *redisNode) record(ctx context.Context, was string, next entry, lasts time.Duration) (entry, error) {
	new := ""
	if next.self != "" {
		new = next.text()
	}
	reply, _, err := n.run(ctx, nodesScript, []string{n.server.EpochKey()}, []string{was, new, epoch.Millis(lasts)})
	if err != nil {
		return entry{}, err
	}
	if len(reply) < 2 {
		return entry{}, errGarbled
	}
	is := parseEntry(text(reply[1]))
	if n.roster != nil {
		n.roster.learn(n.at, is)
	}
	return is, nil
}

// granting runs a script that grants or renews. It sets the script's first argument: the beginning of the record that the
// node must have. If a node has lost its record, or has an older one, granting first gives it the present record.
func (n *redisNode) granting(ctx context.Context, script int, keys, args []string) (reply []rueidis.RedisMessage, boot string, err error) {
	if n.roster == nil {
		return n.run(ctx, script, keys, args)
	}
	looked := false // read the record once more before refusing: another client may just have founded the store
	for range 4 {
		head, fix, err := n.roster.ready(n.at)
		switch {
		case err != nil && (n.roster.stale(n.at) || !looked && errors.Is(err, driver.ErrDisagree)):
			looked = true
			if _, err := n.record(ctx, "", entry{}, 0); err != nil {
				return nil, "", err
			}
			continue
		case err != nil:
			return nil, "", err
		case fix != nil:
			if _, err := n.record(ctx, n.roster.raw(n.at), *fix, 0); err != nil {
				return nil, "", err
			}
			continue
		}
		args[0] = head
		reply, boot, err = n.run(ctx, script, keys, args)
		if err != nil || len(reply) < 2 || epoch.Code(reply) != otherNodes {
			return reply, boot, err
		}
		n.roster.learn(n.at, parseEntry(text(reply[1])))
	}
	return nil, "", unavailable(errors.New("what it has recorded of the nodes changes again and again"))
}

// odd returns why the node counts as down although it answers, or nil.
func (n *redisNode) odd() error {
	if n.roster == nil {
		return nil
	}
	return n.roster.odd(n.at)
}
