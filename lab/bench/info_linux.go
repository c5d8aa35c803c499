// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// counts are the sums of the counters of all Redis servers.
type counts struct {
	calls map[string]int64 // calls of each command, also by scripts
	reads int64            // how often the servers read from a connection
}

// counted asks every Redis server.
func (w *world) counted() (*counts, error) {
	c := &counts{calls: map[string]int64{}}
	for _, addr := range w.Redis {
		server := servers.NewRedis("")
		server.Addr = addr
		for _, section := range []string{"commandstats", "stats"} {
			text, err := server.Do("INFO", section)
			if err != nil {
				return nil, err
			}
			c.add(text)
		}
	}
	return c, nil
}

func (c *counts) add(info string) {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, ok := strings.CutPrefix(key, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseInt(calls, 10, 64)
			c.calls[name] += n
		} else if key == "total_reads_processed" {
			n, _ := strconv.ParseInt(value, 10, 64)
			c.reads += n
		}
	}
}

// since returns how many commands the servers have run since before, and how many of them
// were requests of clients: scripts, and the commands in direct.
func (c *counts) since(before *counts, direct []string) (requests, commands int64) {
	for name, n := range c.calls {
		if name == "info" {
			continue // we sent it
		}
		n -= before.calls[name]
		commands += n
		for _, d := range append([]string{"evalsha", "eval"}, direct...) {
			if name == d {
				requests += n
			}
		}
	}
	return requests, commands
}
