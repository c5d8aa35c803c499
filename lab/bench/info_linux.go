// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// counts has how often the Redis servers have run each command, also for scripts.
type counts map[string]int64

// counted asks every Redis server.
func (w *world) counted() (counts, error) {
	c := counts{}
	for _, addr := range w.Redis {
		server := servers.NewRedis("")
		server.Addr = addr
		text, err := server.Do("INFO", "commandstats")
		if err != nil {
			return nil, err
		}
		c.add(text)
	}
	return c, nil
}

func (c counts) add(info string) {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, ok := strings.CutPrefix(key, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseInt(calls, 10, 64)
			c[name] += n
		}
	}
}

// since returns how many requests clients have sent since before: scripts, and the commands in direct.
func (c counts) since(before counts, direct []string) (requests int64) {
	for _, name := range append([]string{"evalsha", "eval"}, direct...) {
		requests += c[name] - before[name]
	}
	return requests
}
