// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Settings are the settings of a run.
type Settings struct {
	Dir     string // folder for the servers' data
	Workers int
	TTL     time.Duration
	MaxTTL  time.Duration
	Clocks  bool // faults set the clocks of servers
}

// Topology is a store with its servers.
type Topology struct {
	URL     func(worker int) string // of the store for a worker; if possible, each worker has its own links
	Direct  string                  // URL of the store without links that have faults
	Faults  []Fault                 // can be drawn
	Guests  []Guest                 // clients with other options than the workers
	Promise Promise

	hosts []host
	links wires
	whole func() error // waits until the servers have found together; may be nil
}

// Heal ends all effects of faults.
func (t *Topology) Heal() error {
	t.links.heal()
	err := up(t.hosts)
	if err == nil && t.whole != nil {
		err = t.whole()
	}
	return err
}

// Stop ends the servers for good.
func (t *Topology) Stop() {
	t.links.close()
	for _, h := range t.hosts {
		h.End()
	}
}

// Promise is what a store promises besides exclusion.
type Promise struct {
	Shared, Slots, Tokens bool
	Settle                time.Duration // how long the store may be closed after the last fault
}

// Guest is a client with other options than the workers.
type Guest struct {
	Kind   string
	Beyond string // see Fault
	URL    string
	Args   []string // more arguments for the program
	// Program runs instead of the workers' program, with the same flags.
	Program []string
}

//go:embed foreign/guest.py
var foreign string

// stranger returns a guest that uses another library and does not know pawl. When the server has lost its data, it
// does not wait for a quarantine, so it is beyond what is promised.
func stranger(kind, addr string) Guest {
	return Guest{Kind: "a stranger", Beyond: "another library's lock is forgotten", URL: addr, Args: []string{"-kind", kind},
		Program: []string{"/usr/bin/python3", "-c", foreign}}
}

// Fault is something that happens to clients, to servers, or on the network. Do returns when the
// fault is over.
type Fault struct {
	Kind string
	// Beyond says which assumption in docs/guarantees the fault breaks. Such a fault is drawn only
	// with --beyond.
	Beyond string
	Weight int  // how often it is drawn, relative to others; 0 means 1
	Alone  bool // no other fault happens meanwhile
	Do     func(a *Act) error
}

// Act is the happening of a fault.
type Act struct {
	Ctx  context.Context
	Rand *rand.Rand
	TTL  time.Duration
	Note func(format string, args ...any)
}

// Last waits for a random time between from and to, or until the time for faults is over.
func (a *Act) Last(from, to time.Duration) {
	d := from + time.Duration(a.Rand.Int64N(int64(to-from)+1))
	select {
	case <-a.Ctx.Done():
	case <-time.After(d):
	}
}

// guests returns guests for any store: one with the usual options, one with longer leases, and one with another
// prefix.
func guests(s Settings, direct, elsewhere string) []Guest {
	return []Guest{
		{Kind: "a newcomer", URL: direct},
		{Kind: "longer leases", URL: direct, Args: []string{"-ttl", s.MaxTTL.String()}},
		{Kind: "another prefix", URL: elsewhere, Args: []string{"-space", "elsewhere"}},
	}
}

// redisGuests returns guests for stores whose clients must agree on MaxTTL and on the keys of locks.
func redisGuests(s Settings, direct string) []Guest {
	return append(guests(s, direct, direct+"&prefix=elsewhere:"),
		Guest{Kind: "a longer MaxTTL", URL: strings.Replace(direct, "max_ttl="+s.MaxTTL.String(), "max_ttl="+(5*s.TTL).String(), 1),
			Args: []string{"-ttl", (5 * s.TTL).String()}},
		Guest{Kind: "keys of another pattern", URL: direct + "&pattern=other:*"},
	)
}

// New starts a topology.
func New(name string, s Settings) (*Topology, error) {
	f := topologies[name]
	if f == nil {
		return nil, fmt.Errorf("there is no topology %q; there are %v", name, Names())
	}
	var t *Topology
	var err error
	for try := range 3 { // another program may take a port before a server does
		s := s
		s.Dir = filepath.Join(s.Dir, fmt.Sprint(try))
		if err = os.MkdirAll(s.Dir, 0o700); err != nil {
			return nil, err
		}
		if t, err = f(s); err == nil {
			return t, nil
		}
	}
	return nil, err
}

// Names returns the names of all topologies.
func Names() []string { return slices.Sorted(maps.Keys(topologies)) }

var topologies = map[string]func(Settings) (*Topology, error){
	"redis":     func(s Settings) (*Topology, error) { return newSingle(s) },
	"redis-rdb": func(s Settings) (*Topology, error) { return newSingle(s, "--save", "1 1") },
	"redis-aof": func(s Settings) (*Topology, error) {
		return newSingle(s, "--appendonly", "yes", "--appendfsync", "everysec")
	},
	"cluster":          newCluster,
	"sentinel":         newSentinel,
	"move":             func(s Settings) (*Topology, error) { return newMove(s, false, false) },
	"move-cut":         func(s Settings) (*Topology, error) { return newMove(s, true, false) },
	"move-apart":       func(s Settings) (*Topology, error) { return newMove(s, true, true) },
	"redlock-3":        func(s Settings) (*Topology, error) { return newRedlock(s, 3) },
	"redlock-5":        func(s Settings) (*Topology, error) { return newRedlock(s, 5) },
	"etcd":             newEtcd,
	"postgres":         newPostgres,
	"postgres-replica": func(s Settings) (*Topology, error) { return newReplicated(s, "durable") },
	"postgres-sync":    func(s Settings) (*Topology, error) { return newReplicated(s, "synchronous") },
	"zookeeper":        newZooKeeper,
	"directory":        newDirectory,
}
