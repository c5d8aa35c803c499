// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"slices"
	"strings"
)

// redlock is several independent Redis servers. Each worker has its own link to each server.
type redlock struct {
	Settings
	servers []*Redis
	addrs   []string
	links   []wires // for each worker, a link to each server
}

func newRedlock(s Settings, n int) (*Topology, error) {
	t := &redlock{Settings: s}
	for i := range n {
		r, err := s.newRedis(fmt.Sprint("redis", i))
		if err != nil {
			return nil, err
		}
		t.servers, t.addrs = append(t.servers, r), append(t.addrs, r.Addr)
	}
	var err error
	t.links, err = s.eachWorker(t.addrs...)
	return &Topology{
		URL:     func(worker int) string { return t.url(t.links[worker].addrs()) },
		Direct:  t.url(t.addrs),
		Faults:  t.faults(),
		Guests:  t.guests(),
		Promise: Promise{Shared: true, Tokens: true, Settle: s.MaxTTL + 3*s.TTL},
		hosts:   hostsOf(t.servers), links: t.all(),
	}, err
}

func (t *redlock) url(addrs []string) string {
	// node_timeout is long, because servers on a busy machine answer late.
	return fmt.Sprintf("redlock://%s?max_ttl=%v&node_timeout=%v", strings.Join(addrs, ","), t.MaxTTL, t.TTL/20)
}

func (t *redlock) guests() []Guest {
	all := append(redisGuests(t.Settings, t.url(t.addrs)),
		Guest{Kind: "a clock that is ahead", Beyond: "clocks of clients disagree while nodes forget", URL: t.url(t.addrs), Args: []string{"-wall", "60s"}},
		Guest{Kind: "a clock that is behind", Beyond: "clocks of clients disagree while nodes forget", URL: t.url(t.addrs), Args: []string{"-wall", "-60s"}},
	)
	if len(t.addrs) > 3 {
		all = append(all, Guest{Kind: "three of the masters", URL: t.url(t.addrs[:3])},
			Guest{Kind: "three others of the masters", URL: t.url(t.addrs[2:])})
	}
	return all
}

func (t *redlock) all() wires { return slices.Concat(t.links...) }

func (t *redlock) faults() []Fault {
	draw := func(a *Act) *Redis { return t.servers[a.Rand.IntN(len(t.servers))] }
	all := t.clockedFaults(draw)
	// A fault hits any of the links, or all links of one client, or all links to one server.
	for _, f := range t.all().faults() {
		do := f.Do
		f.Do = func(a *Act) error {
			if a.Rand.IntN(2) == 0 {
				return do(a)
			}
			side := t.side(a).faults()
			return side[slices.IndexFunc(side, func(s Fault) bool { return s.Kind == f.Kind })].Do(a)
		}
		all = append(all, f)
	}
	return append(all, Fault{Kind: "all restart empty, one after the other", Do: func(a *Act) error {
		for _, i := range a.Rand.Perm(len(t.servers)) {
			if err := restart(a, t.servers[i], true); err != nil {
				return err
			}
		}
		return nil
	}}, Fault{Kind: "FLUSHALL of a majority", Do: func(a *Act) error {
		for _, i := range a.Rand.Perm(len(t.servers))[:len(t.servers)/2+1] {
			if err := command(a, t.servers[i], "FLUSHALL"); err != nil {
				return err
			}
		}
		return nil
	}}, Fault{Kind: "a majority stops", Do: func(a *Act) error {
		var hit []*Redis
		for _, i := range a.Rand.Perm(len(t.servers))[:len(t.servers)/2+1] {
			hit = append(hit, t.servers[i])
		}
		return freeze(a, 2*a.TTL, hit...)
	}})
}

// side returns the links of one worker, or the links to one server.
func (t *redlock) side(a *Act) wires {
	if a.Rand.IntN(2) == 0 {
		return t.links[a.Rand.IntN(len(t.links))]
	}
	i := a.Rand.IntN(len(t.servers))
	var side wires
	for _, w := range t.links {
		side = append(side, w[i])
	}
	return side
}
