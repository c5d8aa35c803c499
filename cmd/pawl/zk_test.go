// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// startZooKeeper starts a ZooKeeper server and returns its address.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	return servers.StartZooKeeper(t, "tickTime=200").Addr
}

// TestZooKeeper: on a ZooKeeper server the commands do what they do on files.
func TestZooKeeper(t *testing.T) {
	w := newWorld(t)
	addr := startZooKeeper(t)
	store := "zk://me:s3cret@" + addr + "/locks?tick_time=200ms"
	w.serves(store, addr, "deploy", "2s")

	for _, c := range []struct {
		store, want string
		code        int
	}{
		{"zk://me:s3cret@127.0.0.1:1", "is the server running", exit.Unavailable},
		{"zk://me:s3cret@" + addr + "?nonsense=1", "nonsense", exit.Config},
		{"zk://me:s3cret@" + addr, "at most", exit.Config},
	} {
		p := w.pawl("run", "-s", c.store, "--ttl", "10m", "deploy", "true")
		p.end(c.code)
		got := p.stderr()
		if !strings.Contains(got, c.want) || strings.Contains(got, "s3cret") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: stderr is %q; want one line with %q", c.store, got, c.want)
		}
	}
}
