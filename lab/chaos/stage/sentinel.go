// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// sentinel is a master with two replicas, and three sentinels that watch them. The servers announce
// the addresses of links. As our documentation requires, a master that has lost its replicas refuses
// writes.
type sentinel struct {
	Settings
	servers   []*Redis
	sentinels []*Redis
	links     wires
}

func newSentinel(s Settings) (*Topology, error) {
	t := &sentinel{Settings: s}
	for i := range 3 {
		l, err := servers.NewLink("")
		if err != nil {
			return nil, err
		}
		host, port, _ := net.SplitHostPort(l.Addr())
		args := []string{"--replica-announce-ip", host, "--replica-announce-port", port, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"}
		if i > 0 {
			first, firstPort, _ := net.SplitHostPort(t.links[0].Addr())
			args = append(args, "--replicaof", first+" "+firstPort)
		}
		r, err := s.newRedis(fmt.Sprint("redis", i), args...)
		if err != nil {
			return nil, err
		}
		l.Move(r.Addr)
		t.servers, t.links = append(t.servers, r), append(t.links, l)
	}
	for i := range 3 {
		dir := filepath.Join(s.Dir, fmt.Sprint("sentinel", i))
		host, port, _ := net.SplitHostPort(t.links[0].Addr())
		r := &Redis{Redis: servers.NewSentinel(dir, fmt.Sprintf("sentinel monitor m %s %s 2", host, port),
			"sentinel down-after-milliseconds m 2000", "sentinel failover-timeout m 4000")}
		if err := r.begin(); err != nil {
			return nil, err
		}
		t.sentinels = append(t.sentinels, r)
	}
	direct := redisURL(t.sentinels[0].Addr, s.MaxTTL) + "&master_set=m"
	for _, r := range t.sentinels[1:] {
		direct += "&addr=" + r.Addr
	}
	return &Topology{
		URL: func(int) string { return direct }, Direct: direct,
		Faults:  t.faults(),
		Guests:  redisGuests(s, direct),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: 2*s.MaxTTL + 2*s.TTL},
		hosts:   hostsOf(append(t.servers[:3:3], t.sentinels...)), links: t.links, whole: t.whole,
	}, t.whole()
}

// whole waits until all sentinels know each other, both replicas, and a master that serves.
//
// If the server that they promote is killed at once, the three may be left as replicas of each other. Sentinels find
// no good replica then, for ever, and an operator has to promote one.
func (t *sentinel) whole() error {
	promote := time.Now().Add(start / 2)
	for _, s := range t.sentinels {
		if err := await("the sentinels", 2*start, func() error {
			out, err := s.Do("SENTINEL", "MASTER", "m")
			if err != nil {
				return err
			}
			f := strings.Split(out, "\n")
			is := make(map[string]string)
			for i := 0; i+1 < len(f); i += 2 {
				is[f[i]] = f[i+1]
			}
			if m := t.master(); m != nil && time.Now().After(promote) && !slices.ContainsFunc(t.servers, (*Redis).isMaster) {
				_, err := m.Do("REPLICAOF", "NO", "ONE")
				return fmt.Errorf("there is no master: REPLICAOF NO ONE = %v", err)
			}
			if is["flags"] != "master" || is["num-slaves"] != "2" || is["num-other-sentinels"] != "2" {
				return fmt.Errorf("flags %s, %s replicas, %s sentinels", is["flags"], is["num-slaves"], is["num-other-sentinels"])
			}
			if m := t.master(); m == nil || m.Info("replication", "connected_slaves") != "2" {
				return fmt.Errorf("the replicas do not follow")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Redis) isMaster() bool { return r.Info("replication", "role") == "master" }

// master returns the server that the sentinels name as the master, or nil.
func (t *sentinel) master() *Redis {
	for _, s := range t.sentinels {
		out, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")
		if err != nil {
			continue
		}
		for i, l := range t.links {
			if l.Addr() == strings.ReplaceAll(out, "\n", ":") {
				return t.servers[i]
			}
		}
	}
	return nil
}

func (t *sentinel) faults() []Fault {
	draw := func(a *Act) *Redis {
		if m := t.master(); m != nil && a.Rand.IntN(4) > 0 {
			return m
		}
		return t.servers[a.Rand.IntN(3)]
	}
	return append(append(t.links.faults(), serverFaults(draw)...),
		Fault{Kind: "SENTINEL FAILOVER", Weight: 4, Do: func(a *Act) error {
			return command(a, t.sentinels[a.Rand.IntN(3)], "SENTINEL", "FAILOVER", "m")
		}},
		Fault{Kind: "a sentinel stops and continues", Do: func(a *Act) error {
			return freeze(a, 3*a.TTL, t.sentinels[a.Rand.IntN(3)])
		}},
		Fault{Kind: "the master is killed until it is replaced", Weight: 3, Do: func(a *Act) error {
			m := t.master()
			if m == nil {
				return nil
			}
			m.down.Lock()
			defer m.down.Unlock()
			m.Kill()
			for range 50 {
				if n := t.master(); n != nil && n != m || a.Ctx.Err() != nil {
					break
				}
				a.Last(a.TTL/10, a.TTL/10)
			}
			a.Last(0, a.TTL)
			return m.Start()
		}},
	)
}
