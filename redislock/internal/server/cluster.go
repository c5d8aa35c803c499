// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
)

// Cluster is the masters of a Redis Cluster. Each is a Server of its own, with a
// connection, scripts and a run of its own, so that one that hangs holds up nobody
// else. Keys are routed here and not by the client: scripts are those of one run
// of one node, and must be called by the names that they have there.
type Cluster struct {
	conf  Config // of the Servers
	nodes Nodes

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // ears, and what is done in the background

	mu      sync.Mutex // guards the fields below
	owners  [slotCount]*node
	servers map[string]*node // by address
	ears    map[int]*slotEar // by slot
	asking  *survey          // under way, or the last one
}

// Nodes makes clients of nodes.
type Nodes interface {
	// Dial returns a client of the node at addr, whether it can connect or not.
	Dial(ctx context.Context, addr string) (rueidis.Client, error)
	// First returns addresses of some nodes.
	First() []string
}

// node is a Server that may still be connecting.
type node struct {
	addr  string
	ready chan struct{} // closed when the fields below are set
	srv   *Server
	err   error
	// used is when it was the owner of a slot, or was asked for something, last.
	// Cluster.mu guards it.
	used driver.Instant
}

// NewCluster returns the Cluster that some nodes belong to. It sends nothing.
func NewCluster(nodes Nodes, conf Config) *Cluster {
	c := &Cluster{conf: conf, nodes: nodes, servers: make(map[string]*node), ears: make(map[int]*slotEar)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// at returns the node at an address. Cluster.mu is held.
func (c *Cluster) at(addr string) *node {
	n := c.servers[addr]
	if n == nil {
		n = &node{addr: addr, ready: make(chan struct{})}
		if !c.spawn(func() { c.dial(n) }) {
			n.err = errClosed
			close(n.ready)
			return n
		}
		c.servers[addr] = n
	}
	n.used = driver.Now()
	return n
}

// spawn does something in the background, unless the Cluster is closed. Cluster.mu
// is held.
func (c *Cluster) spawn(f func()) bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.work.Go(f)
	return true
}

var errClosed = errors.New("the client is closed")

func (c *Cluster) dial(n *node) {
	defer close(n.ready)
	client, err := c.nodes.Dial(c.ctx, n.addr)
	if client == nil {
		n.err = err
		c.forget(n)
		return
	}
	conf := c.conf
	conf.Addr = n.addr
	n.srv = New(client, conf)
	n.srv.cluster = c
	if c.ctx.Err() != nil {
		n.srv.Close()
		return
	}
	n.srv.Listen()
}

// forget makes the next who needs the node dial again.
func (c *Cluster) forget(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[n.addr] == n {
		delete(c.servers, n.addr)
	}
	for slot, owner := range c.owners {
		if owner == n {
			c.owners[slot] = nil
		}
	}
}

// server waits for the node.
func (n *node) server(ctx context.Context) (*Server, error) {
	select {
	case <-n.ready:
		return n.srv, n.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// now returns the Server if there is one yet.
func (n *node) now() *Server {
	select {
	case <-n.ready:
		return n.srv
	default:
		return nil
	}
}

// owner returns the node that has a slot, as far as is known.
func (c *Cluster) owner(ctx context.Context, slot int) (*Server, error) {
	for {
		c.mu.Lock()
		n := c.owners[slot]
		if n != nil {
			n.used = driver.Now()
		}
		c.mu.Unlock()
		if n != nil {
			return n.server(ctx)
		}
		if err := c.survey(ctx, nil); err != nil {
			return nil, err
		}
		c.mu.Lock()
		n = c.owners[slot]
		c.mu.Unlock()
		if n == nil {
			return nil, errNobody(slot)
		}
	}
}

func errNobody(slot int) error {
	return fmt.Errorf("CLUSTERDOWN no node has the hash slot %d", slot)
}

// assign notes whose a slot is.
func (c *Cluster) assign(slot int, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[slot] = c.at(addr)
}

// survey is one asking for whose the slots are.
type survey struct {
	done  chan struct{} // closed when the fields below are set
	err   error
	ended driver.Instant
}

// survey learns whose the slots are, from others than suspect if they answer, or
// waits until somebody else has.
func (c *Cluster) survey(ctx context.Context, suspect *Server) error {
	c.mu.Lock()
	s := c.begin(suspect)
	c.mu.Unlock()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin begins a survey unless there is one. Cluster.mu is held.
func (c *Cluster) begin(suspect *Server) *survey {
	if c.asking != nil && !c.asking.over() {
		return c.asking
	}
	s := &survey{done: make(chan struct{})}
	if !c.spawn(func() {
		s.err = c.ask(suspect)
		s.ended = driver.Now()
		close(s.done)
	}) {
		s.err = errClosed
		close(s.done)
	}
	c.asking = s
	return s
}

func (s *survey) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// suspect begins to look for a new owner of what a Server has that does not
// answer, or does not know better. Who asks does not wait for it.
func (c *Cluster) suspect(s *Server) {
	const often = 200 * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == nil || c.asking.over() && driver.Now().Sub(c.asking.ended) > often {
		c.begin(s)
	}
}

// ask asks the nodes that are known, all at once, and if none of them answers, those
// that were known at first.
func (c *Cluster) ask(suspect *Server) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.conf.Timeout+time.Second)
	defer cancel()
	c.mu.Lock()
	var known []*Server
	for _, n := range c.servers {
		if s := n.now(); s != nil && s != suspect {
			known = append(known, s)
		}
	}
	c.mu.Unlock()
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	answers := make(chan answer, len(known)+1)
	for _, s := range known {
		go func() { answers <- slotsOf(ctx, s.Addr, s.client) }()
	}
	late := time.NewTimer(time.Second)
	defer late.Stop()
	for waiting := len(known); waiting > 0; {
		select {
		case a := <-answers:
			if a.err == nil {
				return c.take(a)
			}
			waiting--
		case <-late.C:
			waiting = 0
		}
	}
	return c.askFirst(ctx)
}

// askFirst asks the nodes that were known at first, on connections for that alone.
func (c *Cluster) askFirst(ctx context.Context) error {
	first := c.nodes.First()
	answers := make(chan answer, len(first))
	for _, addr := range first {
		go func() {
			client, err := c.nodes.Dial(ctx, addr)
			if client == nil {
				answers <- answer{err: err}
				return
			}
			answers <- slotsOf(ctx, addr, client)
			if c.conf.Owned {
				client.Close()
			}
		}()
	}
	var errs []error
	for range first {
		select {
		case a := <-answers:
			if a.err == nil {
				return c.take(a)
			}
			errs = append(errs, a.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// answer says whose the slots are, in the eyes of one node.
type answer struct {
	owners map[string][][2]int // by address, first and last slots
	err    error
}

func slotsOf(ctx context.Context, addr string, client rueidis.Client) answer {
	rows, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return answer{err: Lacking(err, "cluster|slots")}
	}
	a := answer{owners: make(map[string][][2]int)}
	for _, row := range rows {
		f, err := row.ToArray()
		if err != nil || len(f) < 3 {
			return answer{err: fmt.Errorf("CLUSTER SLOTS: a row has %d parts: %w", len(f), err)}
		}
		first, _ := f[0].AsInt64()
		last, _ := f[1].AsInt64()
		master, err := f[2].ToArray()
		if err != nil || len(master) < 2 || first < 0 || last >= slotCount {
			return answer{err: fmt.Errorf("CLUSTER SLOTS: no master of the slots %d to %d: %w", first, last, err)}
		}
		host, _ := master[0].ToString()
		port, _ := master[1].AsInt64()
		at := announced(net.JoinHostPort(host, strconv.FormatInt(port, 10)), addr)
		a.owners[at] = append(a.owners[at], [2]int{int(first), int(last)})
	}
	if len(a.owners) == 0 {
		return answer{err: errNobody(0)}
	}
	return a
}

// announced returns the address that the node at asked means by addr: nodes that do
// not know their own name leave it out.
func announced(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// take makes an answer what is known.
func (c *Cluster) take(a answer) error {
	const unused = time.Minute // then a node that has no slots is given up
	c.mu.Lock()
	c.owners = [slotCount]*node{}
	for addr, ranges := range a.owners {
		n := c.at(addr)
		for _, r := range ranges {
			for slot := r[0]; slot <= r[1]; slot++ {
				c.owners[slot] = n
			}
		}
	}
	var gone []*node
	for addr, n := range c.servers {
		if a.owners[addr] == nil && driver.Now().Sub(n.used) > unused {
			delete(c.servers, addr)
			gone = append(gone, n)
		}
	}
	c.mu.Unlock()
	for _, n := range gone {
		if s, err := n.server(c.ctx); err == nil {
			s.Close()
		}
	}
	return nil
}

// Bind finds the masters and binds a few of them, of which one must do.
func (c *Cluster) Bind(ctx context.Context) error {
	servers, err := c.Servers(ctx)
	if err != nil {
		return NotBound(ctx, err).Err
	}
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	servers = servers[:min(len(servers), 3)]
	errs := make(chan error, len(servers))
	for _, s := range servers {
		go func() { errs <- s.Bind(ctx) }()
	}
	for range servers {
		if err = <-errs; err == nil {
			return nil
		}
	}
	return err
}

// Servers returns the masters that have slots.
func (c *Cluster) Servers(ctx context.Context) (servers []*Server, err error) {
	if err := c.survey(ctx, nil); err != nil {
		return nil, err
	}
	c.mu.Lock()
	nodes := make(map[*node]bool)
	for _, n := range c.owners {
		if n != nil {
			nodes[n] = true
		}
	}
	c.mu.Unlock()
	for n := range nodes {
		s, err := n.server(ctx)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// EpochKey is the key of the record of the epoch of a lock's key.
func (c *Cluster) EpochKey(key string) string {
	return c.conf.Prefix + "epoch:{" + slotTag(slotOf(key)) + "}"
}

// Together reports whether two keys are in one server, as far as is known.
func (c *Cluster) Together(a, b string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[slotOf(a)] == c.owners[slotOf(b)]
}

// Compare is as Server.Compare, at the node that has the key.
func (c *Cluster) Compare(key string, last, next Term, left time.Duration) (forward time.Duration) {
	c.mu.Lock()
	n := c.owners[slotOf(key)]
	c.mu.Unlock()
	if n == nil || n.now() == nil {
		return 0
	}
	return n.now().Compare(key, last, next, left)
}

// Close is as Server.Close.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.cancel()
	servers := c.servers
	c.servers = nil
	c.mu.Unlock()
	for _, n := range servers {
		if s, _ := n.server(context.Background()); s != nil {
			s.Close()
		}
	}
	c.work.Wait()
}
