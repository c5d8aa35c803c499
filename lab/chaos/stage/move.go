// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// move is an address that leads to one of two servers, as a virtual IP, a proxy or a DNS name does. The other
// server is a replica of that one, or is independent of it.
type move struct {
	Settings
	servers [2]*Redis
	at      int
	links   wires
	cuts    bool // old connections end when the address moves
	apart   bool // the servers are independent
}

func newMove(s Settings, cuts, apart bool) (*Topology, error) {
	t := &move{Settings: s, cuts: cuts, apart: apart}
	for i := range t.servers {
		var err error
		if t.servers[i], err = s.newRedis(fmt.Sprint("redis", i)); err != nil {
			return nil, err
		}
	}
	var err error // the last link is for Direct
	if t.links, err = linksTo(slices.Repeat([]string{t.servers[0].Addr}, s.Workers+1)...); err != nil {
		return nil, err
	}
	url := func(worker int) string { return redisURL(t.links[worker].Addr(), s.MaxTTL) }
	return &Topology{
		URL: url, Direct: url(s.Workers),
		Faults: append(append(t.links[:s.Workers].faults(), serverFaults(func(*Act) *Redis { return t.servers[t.at] })...),
			Fault{Kind: "the address moves", Weight: 6, Alone: true, Do: t.moving(false)},
			Fault{Kind: "the server is killed, and the address moves", Weight: 2, Alone: true, Do: t.moving(true)}),
		Guests:  redisGuests(s, url(s.Workers)),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: s.MaxTTL + 2*s.TTL},
		hosts:   hostsOf(t.servers[:]), links: t.links,
		whole: func() error {
			t.lead()
			return t.follow(1-t.at, t.at)
		},
	}, t.follow(1, 0)
}

// follow makes one server the replica of the other, unless they are independent.
func (t *move) follow(replica, master int) error {
	if t.apart {
		return nil
	}
	m := t.servers[master]
	if _, err := m.Do("REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(m.Addr)
	_, err := t.servers[replica].Do("REPLICAOF", host, port)
	return err
}

// lead makes all links lead to the current server.
func (t *move) lead() {
	for _, l := range t.links {
		l.Move(t.servers[t.at].Addr)
	}
}

// moving returns a fault that moves the address. Before the other server becomes the master, it kills the old
// master or makes it a replica, because two masters at a time are beyond what is promised.
func (t *move) moving(kill bool) func(*Act) error {
	return func(a *Act) error {
		old, next := t.at, 1-t.at
		if kill {
			t.servers[old].Kill()
		} else if !t.apart {
			if err := await("the replica follows", 5*time.Second, func() error {
				if up := t.servers[next].Info("replication", "master_link_status"); up != "up" {
					return fmt.Errorf("its link is %q", up)
				}
				return nil
			}); err != nil {
				a.Note("%v", err)
				return nil
			}
			host, port, _ := net.SplitHostPort(t.servers[next].Addr)
			t.servers[old].Do("REPLICAOF", host, port)
		}
		if !t.apart {
			t.servers[next].Do("REPLICAOF", "NO", "ONE")
		}
		t.at = next
		t.lead()
		if t.cuts {
			for _, l := range t.links {
				l.Reset()
			}
		}
		a.Last(0, a.TTL)
		if kill {
			if err := t.servers[old].Start(); err != nil {
				return err
			}
			if err := t.follow(old, next); err != nil {
				a.Note("%v", err)
			}
		}
		a.Last(a.TTL/2, 4*a.TTL)
		return nil
	}
}
