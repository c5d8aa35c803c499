// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/lab/chaos/link"
)

// etcd is a cluster of three members that run $CHAOS_ETCD or etcd. The members reach each other over links. Each
// worker has its own link to each member.
type etcd struct {
	Settings
	members []*etcdMember
	peers   wires // the links to each member from the others
	links   []wires
}

type etcdMember struct {
	Process
	addr string
}

func newEtcd(s Settings) (Topology, error) {
	t := &etcd{Settings: s}
	ports, err := freePorts(6)
	if err != nil {
		return nil, err
	}
	var initial []string
	for i := range 3 {
		l, err := link.New("127.0.0.1:" + ports[3+i])
		if err != nil {
			return nil, err
		}
		t.peers = append(t.peers, l)
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, l.Addr()))
	}
	for i := range 3 {
		m := &etcdMember{addr: "127.0.0.1:" + ports[i]}
		m.Dir = filepath.Join(s.Dir, fmt.Sprint("etcd", i))
		if err := os.MkdirAll(m.Dir, 0o700); err != nil {
			return nil, err
		}
		m.Args = append(program("CHAOS_ETCD", "etcd"), "--name", fmt.Sprint("m", i), "--data-dir", filepath.Join(m.Dir, "data"),
			"--listen-client-urls", "http://"+m.addr, "--advertise-client-urls", "http://"+m.addr,
			"--listen-peer-urls", "http://127.0.0.1:"+ports[3+i], "--initial-advertise-peer-urls", "http://"+t.peers[i].Addr(),
			"--initial-cluster", strings.Join(initial, ","), "--heartbeat-interval", "100", "--election-timeout", "600", "--logger", "zap", "--log-level", "warn")
		if err := m.Start(); err != nil {
			return nil, err
		}
		t.members = append(t.members, m)
	}
	if t.links, err = s.eachWorker(t.addrs()...); err != nil {
		return nil, err
	}
	return t, up(t.members)
}

// Up also waits until the member can read through the majority.
func (m *etcdMember) Up() error {
	if err := m.Start(); err != nil {
		return err
	}
	return await("etcd at "+m.addr, start, func() error {
		_, err := m.call("/v3/kv/range", `{"key":"eA=="}`)
		return err
	})
}

// call sends a request to the member's gateway.
func (m *etcdMember) call(path, body string) (string, error) {
	client := http.Client{Timeout: 3 * time.Second}
	r, err := client.Post("http://"+m.addr+path, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = errors.New(string(b))
	}
	return string(b), err
}

func (t *etcd) addrs() (all []string) {
	for _, m := range t.members {
		all = append(all, m.addr)
	}
	return all
}

func (t *etcd) URL(worker int) string { return "etcd://" + strings.Join(t.links[worker].addrs(), ",") }
func (t *etcd) Direct() string        { return "etcd://" + strings.Join(t.addrs(), ",") }

func (t *etcd) Guests() []Guest { return guests(t.Settings, t.Direct(), t.Direct()+"/elsewhere/") }

func (t *etcd) Promise() Promise {
	return Promise{Shared: true, Slots: true, Tokens: true, Settle: 3*t.TTL + 3*time.Second}
}

func (t *etcd) clients() wires { return slices.Concat(t.links...) }

func (t *etcd) Heal() error {
	t.clients().heal()
	t.peers.heal()
	return up(t.members)
}

func (t *etcd) Stop() {
	t.clients().close()
	t.peers.close()
	killAll(t.members)
}

// leader returns the number of the member that claims to be the leader, or -1.
func (t *etcd) leader() int {
	for i, m := range t.members {
		s, err := m.call("/v3/maintenance/status", "{}")
		if err != nil {
			continue
		}
		if id := field(s, "member_id"); id != "" && id == field(s, "leader") {
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

func (t *etcd) Faults() []Fault {
	draw := func(a *Act) *etcdMember { return t.members[a.Rand.IntN(3)] }
	leads := func(a *Act, f func(leader int) error) error {
		if i := t.leader(); i >= 0 {
			return f(i)
		}
		return nil
	}
	all := t.clients().faults()
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
