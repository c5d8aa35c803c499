// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// etcd is a cluster of three members that run $CHAOS_ETCD or etcd. The members reach each other over links. Each
// worker has its own link to each member.
type etcd struct {
	Settings
	members []*servers.Etcd
	addrs   []string
	peers   wires // the links to each member from the others
	links   []wires
	clients wires // all of them
}

func newEtcd(s Settings) (*Topology, error) {
	t := &etcd{Settings: s}
	var peers, initial []string
	for i := range 3 {
		m := servers.NewEtcd(filepath.Join(s.Dir, fmt.Sprint("etcd", i)))
		m.Program = cmp.Or(os.Getenv("CHAOS_ETCD"), m.Program)
		more, err := s.member(&m.Server, 1)
		if err != nil {
			return nil, err
		}
		l, err := servers.NewLink(more[0])
		if err != nil {
			return nil, err
		}
		t.members, t.addrs = append(t.members, m), append(t.addrs, m.Addr)
		t.peers, peers = append(t.peers, l), append(peers, more[0])
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, l.Addr()))
	}
	for i, m := range t.members {
		m.Args = []string{"--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(m.Dir, "data"),
			"--listen-client-urls", "http://" + m.Addr, "--advertise-client-urls", "http://" + m.Addr,
			"--listen-peer-urls", "http://" + peers[i], "--initial-advertise-peer-urls", "http://" + t.peers[i].Addr(),
			"--initial-cluster", strings.Join(initial, ","), "--heartbeat-interval", "100", "--election-timeout", "600", "--logger", "zap", "--log-level", "warn"}
	}
	var err error
	if t.links, err = s.eachWorker(t.addrs...); err != nil {
		return nil, err
	}
	t.clients = slices.Concat(t.links...)
	direct := "etcd://" + strings.Join(t.addrs, ",")
	topology := &Topology{
		URL:     func(worker int) string { return "etcd://" + strings.Join(t.links[worker].addrs(), ",") },
		Direct:  direct,
		Faults:  t.faults(),
		Guests:  guests(s, direct, direct+"/elsewhere/"),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 3*s.TTL + 3*time.Second},
		hosts:   hostsOf(t.members), links: slices.Concat(t.clients, t.peers),
	}
	return topology, up(topology.hosts)
}

// leader returns the number of the member that claims to be the leader, or -1.
func (t *etcd) leader() int {
	client := http.Client{Timeout: 3 * time.Second}
	for i, m := range t.members {
		r, err := client.Post("http://"+m.Addr+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if id := field(string(b), "member_id"); id != "" && id == field(string(b), "leader") {
			return i
		}
	}
	return -1
}

// field returns the string value of a key in JSON. It takes the first such key at any depth.
func field(s, key string) string {
	_, s, ok := strings.Cut(s, `"`+key+`":"`)
	if !ok {
		return ""
	}
	s, _, _ = strings.Cut(s, `"`)
	return s
}

func (t *etcd) faults() []Fault {
	draw := func(a *Act) *servers.Etcd { return t.members[a.Rand.IntN(3)] }
	leads := func(a *Act, f func(leader int) error) error {
		if i := t.leader(); i >= 0 {
			return f(i)
		}
		return nil
	}
	all := t.clients.faults()
	for _, f := range t.peers.faults() {
		f.Kind = "between members: " + f.Kind
		all = append(all, f)
	}
	return append(all,
		Fault{Kind: "kill -9 of a member", Weight: 3, Do: func(a *Act) error { return crash(a, draw(a)) }},
		Fault{Kind: "kill -9 of the leader", Weight: 3, Do: func(a *Act) error {
			return leads(a, func(i int) error { return crash(a, t.members[i]) })
		}},
		Fault{Kind: "kill -9 of all", Do: func(a *Act) error { return crash(a, t.members...) }},
		Fault{Kind: "a follower stops and continues", Weight: 2, Do: func(a *Act) error {
			return leads(a, func(i int) error { return freeze(a, 2*a.TTL, t.members[(i+1+a.Rand.IntN(2))%3]) })
		}},
		// When a stopped leader of etcd 3.4 goes on, it revokes leases that are alive.
		Fault{Kind: "the leader stops and continues", Beyond: "etcd ends a living lease", Weight: 2, Do: func(a *Act) error {
			return leads(a, func(i int) error { return freeze(a, 2*a.TTL, t.members[i]) })
		}},
	)
}
