// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// cluster is a Redis Cluster of three masters, each with a replica. Every node announces the
// address of a link. Clients and other nodes reach the node over the link, but the cluster
// bus does not use it.
type cluster struct {
	Settings
	nodes []*clusterNode
	links wires
}

type clusterNode struct {
	*Redis
	link *servers.Link
	id   string
	bus  string // port
}

const masters, slots = 3, 16384

func newCluster(s Settings) (*Topology, error) {
	c := &cluster{Settings: s}
	for i := range 2 * masters {
		n, err := c.newNode(i)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
		c.links = append(c.links, n.link)
	}
	for i, n := range c.nodes[:masters] {
		first, last := slots*i/masters, slots*(i+1)/masters-1
		if _, err := n.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return nil, err
		}
	}
	for _, n := range c.nodes[1:] {
		if err := c.meet(n); err != nil {
			return nil, err
		}
	}
	if err := c.awaitWhole(2 * masters); err != nil {
		return nil, err
	}
	for i, n := range c.nodes[masters:] {
		if err := await("a replica", start, func() error {
			_, err := n.Do("CLUSTER", "REPLICATE", c.nodes[i].id)
			return err
		}); err != nil {
			return nil, err
		}
	}
	addrs := c.links.addrs()
	direct := redisURL(addrs[0], s.MaxTTL) + "&addr=" + strings.Join(addrs[1:], "&addr=")
	return &Topology{
		URL: func(int) string { return direct }, Direct: direct,
		Faults:  c.faults(),
		Guests:  redisGuests(s, direct),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 2*s.MaxTTL + 2*s.TTL},
		hosts:   hostsOf(c.nodes), links: c.links,
		whole: func() error { return errors.Join(c.awaitWhole(len(c.nodes)), c.awaitReplicas()) },
	}, c.awaitReplicas()
}

func (c *cluster) newNode(i int) (*clusterNode, error) {
	l, err := servers.NewLink("")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr())
	r, err := c.redis(fmt.Sprint("node", i), "--cluster-enabled", "yes", "--cluster-node-timeout", "1500",
		"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", port,
		"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0", "--cluster-migration-barrier", "10")
	if err != nil {
		return nil, err
	}
	addr, err := r.Hold()
	if err != nil {
		return nil, err
	}
	_, bus, _ := net.SplitHostPort(addr)
	r.Args = append(r.Args, "--cluster-port", bus, "--cluster-announce-bus-port", bus)
	if err := r.begin(); err != nil {
		return nil, err
	}
	l.Move(r.Addr)
	id, err := r.Do("CLUSTER", "MYID")
	return &clusterNode{r, l, id, bus}, err
}

func (c *cluster) meet(n *clusterNode) error {
	first := c.nodes[0]
	_, port, _ := net.SplitHostPort(first.link.Addr())
	_, err := n.Do("CLUSTER", "MEET", "127.0.0.1", port, first.bus)
	return err
}

// awaitWhole waits until each node knows that many nodes and sees all slots served.
func (c *cluster) awaitWhole(known int) error {
	for _, n := range c.nodes {
		if err := await("the cluster", start, func() error {
			state, ok, nodes := n.Info("cluster", "cluster_state"), n.Info("cluster", "cluster_slots_ok"), n.Info("cluster", "cluster_known_nodes")
			if k, _ := strconv.Atoi(nodes); state != "ok" || ok != strconv.Itoa(slots) || k < known {
				return fmt.Errorf("%s: state %q, %s slots, %s nodes", n.Addr, state, ok, nodes)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) awaitReplicas() error {
	return await("the replicas", start, func() error {
		up := 0
		for _, n := range c.nodes {
			if n.role() == "slave" && n.Info("replication", "master_link_status") == "up" {
				up++
			}
		}
		if up < len(c.nodes)-masters {
			return fmt.Errorf("%d replicas follow", up)
		}
		return nil
	})
}

func (n *clusterNode) role() string { return n.Info("replication", "role") }

// draw draws one of the nodes with a role, or one of all nodes if role is "". It returns nil if there is none.
func (c *cluster) draw(a *Act, role string) *clusterNode {
	for _, i := range a.Rand.Perm(len(c.nodes)) {
		if n := c.nodes[i]; role == "" || n.role() == role {
			return n
		}
	}
	return nil
}

func (c *cluster) faults() []Fault {
	any := func(a *Act) *Redis { return c.draw(a, "").Redis }
	all := append(c.links.faults(), c.clockedFaults(any)...)
	for _, kind := range []string{"", "FORCE"} {
		all = append(all, Fault{Kind: strings.TrimSpace("CLUSTER FAILOVER " + kind), Weight: 3, Do: func(a *Act) error { return c.failover(a, kind) }})
	}
	return append(all,
		Fault{Kind: "CLUSTER FAILOVER TAKEOVER", Do: func(a *Act) error { return c.failover(a, "TAKEOVER") }},
		Fault{Kind: "master killed until it is replaced", Weight: 2, Do: c.replace},
		Fault{Kind: "resharding", Weight: 2, Alone: true, Do: c.reshard},
	)
}

// failover makes a replica the master, and waits until it is.
func (c *cluster) failover(a *Act, kind string) error {
	n := c.draw(a, "slave")
	if n == nil {
		return nil
	}
	args := []string{"CLUSTER", "FAILOVER"}
	if kind != "" {
		args = append(args, kind)
	}
	if _, err := n.Do(args...); err != nil {
		a.Note("%v", err)
		return nil
	}
	c.awaitMaster(a, n)
	a.Last(0, a.TTL)
	return nil
}

func (c *cluster) awaitMaster(a *Act, n *clusterNode) {
	if err := await("failover", 5*time.Second, func() error {
		if role := n.role(); role != "master" {
			return fmt.Errorf("still a %s", role)
		}
		return nil
	}); err != nil {
		a.Note("%v", err)
	}
}

// replace kills a master, and starts it again after a replica has taken its place.
func (c *cluster) replace(a *Act) error {
	m := c.draw(a, "master")
	if m == nil {
		return nil
	}
	m.down.Lock()
	defer m.down.Unlock()
	m.Kill()
	_ = await("a new master", 4*time.Second, func() error {
		for _, n := range c.nodes {
			if n != m && n.Alive() && n.Info("cluster", "cluster_slots_fail") == "0" && n.Info("cluster", "cluster_slots_pfail") == "0" &&
				n.Info("cluster", "cluster_state") == "ok" {
				return nil
			}
		}
		return fmt.Errorf("none yet")
	})
	a.Last(0, a.TTL)
	return m.Start()
}

// reshard moves some slots with keys from one master to another, as redis-cli does. No other
// fault may happen meanwhile: it could leave a slot half moved, with a key lost, and that is
// beyond what is promised.
func (c *cluster) reshard(a *Act) error {
	from, to := c.draw(a, "master"), c.draw(a, "master")
	if from == nil || to == nil || from == to {
		return nil
	}
	for range 5 {
		key, err := from.Do("RANDOMKEY")
		if err != nil || key == "" || a.Ctx.Err() != nil {
			return nil
		}
		slot, err := from.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			return nil
		}
		// Each try goes on where the last one failed.
		if err := await("slot "+slot, start, func() error { return c.move(slot, from, to, a) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) move(slot string, from, to *clusterNode, a *Act) error {
	if _, err := to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id); err != nil {
		return err
	}
	if _, err := from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id); err != nil {
		return err
	}
	for {
		key, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "1")
		if err != nil {
			return err
		}
		if key == "" {
			break
		}
		_, port, _ := net.SplitHostPort(to.Addr)
		if _, err := from.Do("MIGRATE", "127.0.0.1", port, key, "0", "2000"); err != nil {
			return err
		}
		a.Last(0, 100*time.Millisecond)
	}
	for _, n := range append([]*clusterNode{to, from}, c.nodes...) {
		if n.role() != "master" {
			continue
		}
		if _, err := n.Do("CLUSTER", "SETSLOT", slot, "NODE", to.id); err != nil {
			a.Note("SETSLOT %s NODE: %v", slot, err) // the node will learn it from the cluster bus
		}
	}
	return nil
}
