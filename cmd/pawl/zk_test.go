// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// startZooKeeper starts a ZooKeeper server and returns its address.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	return servers.StartZooKeeper(t, "tickTime=500").Addr
}

// TestZooKeeper: on a ZooKeeper server the commands do what they do on files.
func TestZooKeeper(t *testing.T) {
	w := newWorld(t)
	addr := startZooKeeper(t)
	store := "zk://me:s3cret@" + addr + "/locks?tick_time=500ms"
	w.serves(store, addr, "deploy", "10s")
	w.refuses([]refusal{
		{"zk://me:s3cret@127.0.0.1:1", "is the server running", exit.Unavailable},
		{"zk://me:s3cret@" + addr + "?nonsense=1", "nonsense", exit.Config},
		{"zk://me:s3cret@" + addr, "at most", exit.Config},
	}, "run --ttl 10m deploy true")
}
