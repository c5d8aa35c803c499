// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// zookeeper is an ensemble of three servers, with the classes in $CHAOS_ZOOKEEPER_CLASSPATH or those of Debian. Each server
// has its own link to each other server, and each worker has its own link to each server.
type zookeeper struct {
	Settings
	servers []*servers.ZooKeeper
	addrs   []string
	between [3]wires // the links of server i to the others
	links   []wires
	clients wires // all of them
	inner   wires // all of between
}

const zooTick = 200 * time.Millisecond

func newZooKeeper(s Settings) (*Topology, error) {
	t := &zookeeper{Settings: s}
	peers := make([][]string, 3) // the addresses of each for the quorum and for elections
	for i := range peers {
		z := servers.NewZooKeeper(filepath.Join(s.Dir, fmt.Sprint("zk", i)),
			fmt.Sprint("tickTime=", zooTick.Milliseconds()), "initLimit=50", "syncLimit=25", "-Dzookeeper.forceSync=yes")
		z.Classes = cmp.Or(os.Getenv("CHAOS_ZOOKEEPER_CLASSPATH"), z.Classes)
		var err error
		if peers[i], err = s.member(&z.Server, 2); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(z.Dir, "myid"), []byte(fmt.Sprint(i+1)), 0o600); err != nil {
			return nil, err
		}
		t.servers, t.addrs = append(t.servers, z), append(t.addrs, z.Addr)
	}
	for i, z := range t.servers {
		for j, peer := range peers {
			quorum := peer[0]
			if j != i { // the port for elections has no link, so no faults
				l, err := servers.NewLink(quorum)
				if err != nil {
					return nil, err
				}
				t.between[i] = append(t.between[i], l)
				quorum = l.Addr()
			}
			_, election, _ := net.SplitHostPort(peer[1])
			z.Settings = append(z.Settings, fmt.Sprintf("server.%d=%s:%s", j+1, quorum, election))
		}
	}
	var err error
	if t.links, err = s.eachWorker(t.addrs...); err != nil {
		return nil, err
	}
	t.clients, t.inner = slices.Concat(t.links...), slices.Concat(t.between[:]...)
	url := func(addrs []string) string {
		return fmt.Sprintf("zk://%s?tick_time=%v", strings.Join(addrs, ","), zooTick)
	}
	direct := url(t.addrs)
	topology := &Topology{
		URL:     func(worker int) string { return url(t.links[worker].addrs()) },
		Direct:  direct,
		Faults:  t.faults(),
		Guests:  append(guests(s, direct, strings.Replace(direct, "?", "/elsewhere?", 1)), stranger("zookeeper", t.addrs[0])),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 3*s.TTL + 3*time.Second},
		hosts:   hostsOf(t.servers), links: slices.Concat(t.clients, t.inner),
	}
	return topology, up(topology.hosts)
}

func (t *zookeeper) leader() int {
	for i, z := range t.servers {
		if strings.Contains(servers.WordWithin(time.Second, z.Addr, "srvr"), "Mode: leader") {
			return i
		}
	}
	return -1
}

func (t *zookeeper) faults() []Fault {
	return append(append(t.clients.faults(), memberFaults("server", t.servers, t.inner, t.leader, "")...),
		Fault{Kind: "the leader is cut off from its followers", Weight: 3, Do: leads(t.leader, t.isolate)},
		// When the leader goes on, it finds that sessions have ended. It cannot hear from its followers that they
		// have not.
		Fault{Kind: "the leader stops, and continues deaf", Weight: 2, Do: leads(t.leader, func(a *Act, i int) error {
			t.servers[i].Stop()
			a.Last(a.TTL, 5*a.TTL/2)
			deaf := t.toward(i)[a.Rand.IntN(2):][:1]
			deaf[0].Flow(servers.Up, servers.Flow{Stall: true})
			t.servers[i].Cont()
			a.Last(a.TTL/2, 2*a.TTL)
			deaf.heal()
			return nil
		})},
	)
}

// isolate cuts a leader off from its followers: their requests and its answers stall. Clients still reach the
// leader.
func (t *zookeeper) isolate(a *Act, leader int) error {
	hit := t.toward(leader)
	for _, l := range hit {
		l.Flow(servers.Up, servers.Flow{Stall: true})
		l.Flow(servers.Down, servers.Flow{Stall: true})
	}
	a.Last(a.TTL/4, 2*a.TTL)
	hit.heal()
	return nil
}

// toward returns the links of the other servers to a server.
func (t *zookeeper) toward(server int) wires {
	var all wires
	for i := range 3 {
		switch { // between[i] has the links to the other servers, in order
		case i > server:
			all = append(all, t.between[i][server])
		case i < server:
			all = append(all, t.between[i][server-1])
		}
	}
	return all
}
