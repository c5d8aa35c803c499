// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// newSingle starts one Redis server, with a link for each worker.
func newSingle(s Settings, args ...string) (*Topology, error) {
	server, err := s.newRedis("redis", args...)
	if err != nil {
		return nil, err
	}
	links, err := linksTo(slices.Repeat([]string{server.Addr}, s.Workers)...)
	direct := redisURL(server.Addr, s.MaxTTL)
	return &Topology{
		URL:     func(worker int) string { return redisURL(links[worker].Addr(), s.MaxTTL) },
		Direct:  direct,
		Faults:  append(links.faults(), s.clockedFaults(func(*Act) *Redis { return server })...),
		Guests:  append(redisGuests(s, direct), stranger("redis", server.Addr)),
		Promise: Promise{Shared: true, Slots: true, Tokens: true, Settle: s.MaxTTL + 2*s.TTL},
		hosts:   []host{server}, links: links,
	}, err
}

func redisURL(addr string, max time.Duration) string {
	return fmt.Sprintf("redis://%s?max_ttl=%v", addr, max)
}

// serverFaults returns faults of the Redis server that draw returns.
func serverFaults(draw func(*Act) *Redis) []Fault {
	return []Fault{
		{Kind: "kill -9, restart", Weight: 2, Do: func(a *Act) error { return restart(a, draw(a), false) }},
		{Kind: "kill -9, restart empty", Weight: 2, Do: func(a *Act) error { return restart(a, draw(a), true) }},
		{Kind: "stop and continue", Weight: 2, Do: func(a *Act) error {
			return freeze(a, 2*a.TTL, draw(a))
		}},
		{Kind: "FLUSHALL", Weight: 2, Do: func(a *Act) error { return command(a, draw(a), "FLUSHALL") }},
		{Kind: "SCRIPT FLUSH", Do: func(a *Act) error { return command(a, draw(a), "SCRIPT", "FLUSH") }},
		{Kind: "CLIENT KILL", Do: func(a *Act) error { return command(a, draw(a), "CLIENT", "KILL", "TYPE", "normal") }},
		{Kind: "CLIENT KILL of subscribers", Do: func(a *Act) error { return command(a, draw(a), "CLIENT", "KILL", "TYPE", "pubsub") }},
		{Kind: "DEBUG SLEEP", Do: func(a *Act) error {
			return command(a, draw(a), "DEBUG", "SLEEP", fmt.Sprintf("%.2f", a.TTL.Seconds()*a.Rand.Float64()))
		}},
		{Kind: "CLIENT PAUSE", Do: func(a *Act) error {
			return command(a, draw(a), "CLIENT", "PAUSE", fmt.Sprint(a.Rand.Int64N(2*a.TTL.Milliseconds())), "WRITE")
		}},
		{Kind: "DEL of all keys", Beyond: "keys are deleted by hand", Do: func(a *Act) error {
			r := draw(a)
			keys, err := r.Do("KEYS", "*")
			if err != nil || keys == "" {
				return nil
			}
			return command(a, r, append([]string{"DEL"}, strings.Split(keys, "\n")...)...)
		}},
	}
}

// clockedFaults returns serverFaults. With -clocks it adds faults that set the server's clock.
func (s Settings) clockedFaults(draw func(*Act) *Redis) []Fault {
	all := serverFaults(draw)
	if s.Clocks {
		all = append(all, clockFaults(func(a *Act) *clock { return draw(a).time })...)
	}
	return all
}

// command sends a command. If the server does not answer, command only notes that: another
// fault may be the reason.
func command(a *Act, r *Redis, args ...string) error {
	if _, err := r.Do(args...); err != nil {
		a.Note("%s: %v", args[0], err)
	}
	return nil
}

func restart(a *Act, r *Redis, empty bool) error {
	r.down.Lock()
	defer r.down.Unlock()
	r.Kill()
	if empty {
		if err := r.wipe(); err != nil {
			return err
		}
	}
	a.Last(0, a.TTL)
	return r.Start()
}
