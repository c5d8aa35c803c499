// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/redislock/internal/conn"
)

// Two clients of independent masters exclude each other only if each quorum of one
// client has a node in common with each quorum of the other. So the set of nodes, and
// how many of them are a quorum, is in the record of each node's epoch, and each
// proposal is checked against it. While a set is changed, two sets are accepted, which
// have that property; see package redlock.
//
// A node is known by its id, which is in its record too: the address by which it was
// first named. Clients may reach it by other addresses.

// Set is nodes, by their ids in order, and how many of them are a quorum.
type Set struct {
	Quorum int
	IDs    []string
}

// NewSet returns a Set with the ids in order.
func NewSet(quorum int, ids []string) Set { return Set{quorum, slices.Sorted(slices.Values(ids))} }

// String is how the Set is recorded.
func (s Set) String() string { return strconv.Itoa(s.Quorum) + ":" + strings.Join(s.IDs, ",") }

func parseSet(text string) Set {
	quorum, ids, _ := strings.Cut(text, ":")
	n, _ := strconv.Atoi(quorum)
	return Set{n, strings.Split(ids, ",")}
}

// Without returns the ids that are not in the other Set.
func (s Set) Without(other Set) []string {
	return slices.DeleteFunc(slices.Clone(s.IDs), func(id string) bool { return slices.Contains(other.IDs, id) })
}

// Meets reports whether each quorum of the one Set has a node in common with each of the other.
func (s Set) Meets(other Set) bool {
	mine, others := len(s.Without(other)), len(other.Without(s))
	both := len(s.IDs) - mine
	return max(0, s.Quorum-mine)+max(0, other.Quorum-others) > both
}

// Sets is what a node has recorded: which node it is, and the sets that are accepted. A
// later generation replaces an earlier one.
type Sets struct {
	Self string
	Gen  int
	OK   []Set
	// From is the set of before, if the accepted one is that in between of a change: leases of
	// clients with From may not have ended. It is not accepted.
	From Set
}

// fromMark is what From begins with in a record, where scripts look for accepted sets between semicolons.
const fromMark = "from="

func (s Sets) String() string {
	text := s.Self + ";" + strconv.Itoa(s.Gen) + ";"
	for _, set := range s.OK {
		text += set.String() + ";"
	}
	if s.From.IDs != nil {
		text += fromMark + s.From.String() + ";"
	}
	return text
}

func parseSets(text string) (s Sets) {
	parts := strings.Split(strings.TrimSuffix(text, ";"), ";")
	if len(parts) < 3 {
		return Sets{} // it has none
	}
	s.Self = parts[0]
	s.Gen, _ = strconv.Atoi(parts[1])
	for _, p := range parts[2:] {
		if from, ok := strings.CutPrefix(p, fromMark); ok {
			s.From = parseSet(from)
		} else {
			s.OK = append(s.OK, parseSet(p))
		}
	}
	return s
}

func (s Sets) has(set Set) bool {
	return slices.ContainsFunc(s.OK, func(o Set) bool { return o.String() == set.String() })
}

// Group is one participant's set of nodes, and what it has learnt of them.
type Group struct {
	quorum int
	addrs  []string

	mu    sync.Mutex
	ids   []string // of the nodes, as they have said; empty if they have not
	known Sets     // of the latest generation; Self is empty
	mine  Set      // the one of these that the participant has; no IDs if that is not certain yet
}

// NewGroup returns the Group of a participant that reaches its nodes at these addresses.
func NewGroup(quorum int, addrs []string) *Group {
	return &Group{quorum: quorum, addrs: addrs, ids: make([]string, len(addrs))}
}

// learn keeps what a node has recorded.
func (g *Group) learn(node int, s Sets) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.Gen == 0 {
		return
	}
	g.ids[node] = s.Self
	if s.Gen > g.known.Gen {
		g.known = s
		g.known.Self = ""
	}
	g.find()
}

// find looks for this participant's set among the recorded ones. g.mu is held.
func (g *Group) find() {
	if g.mine.IDs != nil {
		return
	}
	var found []Set
	for _, set := range g.known.OK {
		fits := len(set.IDs) == len(g.addrs) && set.Quorum == g.quorum
		for _, id := range g.ids {
			fits = fits && (id == "" || slices.Contains(set.IDs, id))
		}
		if fits && (found == nil || found[0].String() != set.String()) { // the set in between may be one of the others
			found = append(found, set)
		}
	}
	if len(found) == 1 {
		g.mine = found[0]
	}
}

// ErrStranger is the error of a node that is in no recorded set, as far as is known.
var ErrStranger = errors.New("it answers, but counts as down: it has no record of the set of nodes that it belongs to, and of the nodes that are missing none has this address: " +
	"if it has restarted without its data, use the address by which it was named first, or wait for a client that knows it; if it is a new node, see pawl nodes --help")

// tell returns what is to be recorded at a node that has no record, or an older one.
func (g *Group) tell(node int) (Sets, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known.Gen == 0 { // nobody has used these nodes
		g.mine = NewSet(g.quorum, g.addrs)
		g.known = Sets{Gen: 1, OK: []Set{g.mine}}
	}
	s := g.known
	s.Self = g.ids[node]
	if s.Self == "" {
		if g.strange(node) {
			return Sets{}, ErrStranger
		}
		s.Self = g.addrs[node]
	}
	return s, nil
}

// strange reports whether a node that has no record is in no recorded set. g.mu is held.
func (g *Group) strange(node int) bool {
	return !slices.Contains(g.mine.IDs, g.addrs[node]) || slices.Contains(g.ids, g.addrs[node])
}

// Stranger reports whether a node that answers is in none of the sets that others have
// recorded.
func (g *Group) Stranger(node int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known.Gen > 0 && g.ids[node] == "" && g.strange(node)
}

// set returns the participant's set as scripts get it, or "?" if that is not certain.
func (g *Group) set() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mine.IDs == nil {
		return "?"
	}
	return g.mine.String()
}

// agree returns why this participant must not use a node with this record, or whether
// the record has to be updated first.
func (g *Group) agree(node int, s Sets) (again bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.Gen == 0 {
		return true, nil
	}
	if at := slices.Index(g.ids, s.Self); at >= 0 && at != node {
		return false, storekit.Disagreef("this is the same node as %s (%s): name each node once", g.addrs[at], s.Self)
	}
	switch {
	case g.mine.IDs == nil || !g.known.has(g.mine):
		return false, g.differs(g.known)
	case !slices.Contains(g.mine.IDs, s.Self):
		return false, g.differs(s)
	case s.has(g.mine):
		return false, nil
	case s.Gen < g.known.Gen:
		return true, nil
	}
	return false, g.differs(s)
}

// differs says how the participant's nodes are not those of the store. g.mu is held.
func (g *Group) differs(s Sets) error {
	here := slices.Clone(g.ids)
	for i, id := range here {
		if id == "" {
			here[i] = g.addrs[i]
		}
	}
	mine, store := NewSet(g.quorum, here), s.OK[len(s.OK)-1]
	text := "this client has another set of nodes than the store"
	if extra := mine.Without(store); len(extra) > 0 {
		text += ": " + strings.Join(extra, ", ") + " not in the store's"
	}
	if missing := store.Without(mine); len(missing) > 0 {
		text += ": " + strings.Join(missing, ", ") + " missing here"
	}
	if mine.Quorum != store.Quorum {
		text += fmt.Sprintf(": the quorum is %d here, and %d in the store", mine.Quorum, store.Quorum)
	}
	return storekit.Disagreef("%s; the store's is %s, with a quorum of %d: name these; to change it, see pawl nodes --help",
		text, strings.Join(store.IDs, ", "), store.Quorum)
}

// Record tells a node which one it is and which sets are accepted, unless it has a
// later generation. Its error is that of an attempt to do so.
func (s *Server) Record(ctx context.Context, sets Sets) error {
	b, err := s.Bound(ctx, nil)
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	if b.boot == "" {
		return errUnguarded
	}
	args := s.TellingArgs(Join)
	args[6] = sets.String()
	is, err := s.tell(ctx, b, args)
	if err != nil {
		return conn.NotBound(ctx, err).Err
	}
	if is.Sets.String() != sets.String() {
		return fmt.Errorf("it has recorded %v; want %v", is.Sets, sets)
	}
	return nil
}
