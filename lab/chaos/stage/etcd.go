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

// etcd are three members that run $CHAOS_ETCD or etcd.
type etcd []*servers.Etcd

// newEtcd starts a cluster. The members reach each other over links. Each worker has its own link to each member.
func newEtcd(s Settings) (*Topology, error) {
	var members etcd
	var addrs, peers, initial []string
	var between wires // the links to each member from the others
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
		members, between = append(members, m), append(between, l)
		addrs, peers = append(addrs, m.Addr), append(peers, more[0])
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, l.Addr()))
	}
	for i, m := range members {
		m.Args = []string{"--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(m.Dir, "data"),
			"--listen-client-urls", "http://" + m.Addr, "--advertise-client-urls", "http://" + m.Addr,
			"--listen-peer-urls", "http://" + peers[i], "--initial-advertise-peer-urls", "http://" + between[i].Addr(),
			"--initial-cluster", strings.Join(initial, ","), "--heartbeat-interval", "100", "--election-timeout", "600", "--logger", "zap", "--log-level", "warn"}
	}
	links, err := s.eachWorker(addrs...)
	if err != nil {
		return nil, err
	}
	clients, direct := slices.Concat(links...), "etcd://"+strings.Join(addrs, ",")
	t := &Topology{
		URL:    func(worker int) string { return "etcd://" + strings.Join(links[worker].addrs(), ",") },
		Direct: direct,
		// When a stopped leader of etcd 3.4 goes on, it revokes leases that are alive.
		Faults:  append(clients.faults(), memberFaults("member", members, between, members.leader, "etcd ends a living lease")...),
		Guests:  guests(s, direct, direct+"/elsewhere/"),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 3*s.TTL + 3*time.Second},
		hosts:   hostsOf(members), links: slices.Concat(clients, between),
	}
	return t, up(t.hosts)
}

// leader returns the number of the member that claims to be the leader, or -1.
func (members etcd) leader() int {
	client := http.Client{Timeout: 3 * time.Second}
	for i, m := range members {
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
