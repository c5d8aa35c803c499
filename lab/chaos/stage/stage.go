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

// Settings are those of a run.
type Settings struct {
	Dir     string // for the servers' data
	Workers int
	TTL     time.Duration
	MaxTTL  time.Duration
	Clocks  bool // the clocks of the servers can be set
}

// Topology is a store with the servers that it consists of.
type Topology interface {
	// URL is where a worker finds the store, each by a way of its own if that is possible.
	URL(worker int) string
	// Direct is the same for somebody whom no fault concerns.
	Direct() string
	// Faults are those that can be drawn.
	Faults() []Fault
	// Guests are clients with other options than the rest.
	Guests() []Guest
	// Heal ends all that may still be broken.
	Heal() error
	// Promise says what the store gives besides exclusion.
	Promise() Promise
	Stop()
}

// Promise is what a store gives besides exclusion.
type Promise struct {
	Shared, Slots, Tokens bool
	Settle                time.Duration // how long the store may be closed after the last fault
}

// Guest is a client with other options than the rest.
type Guest struct {
	Kind   string
	Beyond string // as of a Fault
	URL    string
	Args   []string // more for the worker
	// Program is used instead of the worker's, with the same flags.
	Program []string
}

//go:embed foreign/guest.py
var foreign string

// stranger is a guest that has never heard of pawl. It does not wait for a server that has forgotten its locks, so
// it comes only where that is asked for.
func stranger(kind, addr string) Guest {
	return Guest{Kind: "a stranger", Beyond: "another library's lock is forgotten", URL: addr, Args: []string{"-kind", kind},
		Program: []string{"/usr/bin/python3", "-c", foreign}}
}

// Fault is something that happens to the servers, or on the way to them. Do returns when it
// is over.
type Fault struct {
	Kind string
	// Beyond says which assumption in docs/guarantees it breaks; it is drawn only if that is
	// asked for.
	Beyond string
	Weight int  // 1, if it is 0
	Alone  bool // while no other fault is
	Do     func(a *Act) error
}

// Act is one fault as it happens.
type Act struct {
	Ctx  context.Context
	Rand *rand.Rand
	TTL  time.Duration
	Note func(format string, args ...any)
}

// Last waits for a while that is drawn, or until the faults are over.
func (a *Act) Last(from, to time.Duration) {
	d := from + time.Duration(a.Rand.Int64N(int64(to-from)+1))
	select {
	case <-a.Ctx.Done():
	case <-time.After(d):
	}
}

// guests are those of any store: its leases last longer, or it is in a place of its own.
func guests(s Settings, direct, elsewhere string) []Guest {
	return []Guest{
		{Kind: "a newcomer", URL: direct},
		{Kind: "longer leases", URL: direct, Args: []string{"-ttl", s.MaxTTL.String()}},
		{Kind: "another prefix", URL: elsewhere, Args: []string{"-space", "elsewhere"}},
	}
}

// redisGuests are those of stores whose clients must agree on MaxTTL, and on the keys of locks.
func redisGuests(s Settings, direct string) []Guest {
	return append(guests(s, direct, direct+"&prefix=elsewhere:"),
		Guest{Kind: "a longer MaxTTL", URL: strings.Replace(direct, "max_ttl="+s.MaxTTL.String(), "max_ttl="+(5*s.TTL).String(), 1),
			Args: []string{"-ttl", (5 * s.TTL).String()}},
		Guest{Kind: "keys of another pattern", URL: direct + "&pattern=other:*"},
	)
}

// New starts a topology.
func New(name string, s Settings) (Topology, error) {
	f := topologies[name]
	if f == nil {
		return nil, fmt.Errorf("there is no topology %q; there are %v", name, Names())
	}
	var t Topology
	var err error
	for try := range 3 { // somebody else may take a port before a server does
		s := s
		s.Dir = filepath.Join(s.Dir, fmt.Sprint(try))
		if err = os.MkdirAll(s.Dir, 0o700); err != nil {
			return nil, err
		}
		if t, err = f(s); err == nil {
			return t, nil
		}
		killBelow(s.Dir)
	}
	return nil, err
}

// Names returns the names of all topologies.
func Names() []string { return slices.Sorted(maps.Keys(topologies)) }

var topologies = map[string]func(Settings) (Topology, error){
	"redis":     func(s Settings) (Topology, error) { return newSingle(s, nil) },
	"redis-rdb": func(s Settings) (Topology, error) { return newSingle(s, []string{"--save", "1 1"}) },
	"redis-aof": func(s Settings) (Topology, error) {
		return newSingle(s, []string{"--appendonly", "yes", "--appendfsync", "everysec"})
	},
	"cluster":          newCluster,
	"sentinel":         newSentinel,
	"move":             func(s Settings) (Topology, error) { return newMove(s, false, false) },
	"move-cut":         func(s Settings) (Topology, error) { return newMove(s, true, false) },
	"move-apart":       func(s Settings) (Topology, error) { return newMove(s, true, true) },
	"redlock-3":        func(s Settings) (Topology, error) { return newRedlock(s, 3) },
	"redlock-5":        func(s Settings) (Topology, error) { return newRedlock(s, 5) },
	"etcd":             newEtcd,
	"postgres":         newPostgres,
	"postgres-replica": func(s Settings) (Topology, error) { return newReplicated(s, "durable") },
	"postgres-sync":    func(s Settings) (Topology, error) { return newReplicated(s, "synchronous") },
	"zookeeper":        newZooKeeper,
	"directory":        newDirectory,
}
