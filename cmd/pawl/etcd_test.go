// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// startEtcd starts an etcd server with a user and returns its address.
func startEtcd(t *testing.T) string {
	t.Helper()
	m := servers.StartEtcd(t, 1, "--bcrypt-cost", "4")[0] // each pawl sends the password
	for _, words := range [][]string{
		{"user", "add", "root:top"}, {"user", "grant-role", "root", "root"}, {"user", "add", "me:s3cret"},
		{"role", "add", "locks"}, {"role", "grant-permission", "locks", "readwrite", "--prefix", "ci/locks/"},
		{"user", "grant-role", "me", "locks"}, {"auth", "enable"},
	} {
		if _, err := m.Ctl(append([]string{"--command-timeout", "20s"}, words...)...); err != nil {
			t.Fatal(err)
		}
	}
	return m.Addr
}

// TestEtcd: on an etcd cluster the commands do what they do on files.
func TestEtcd(t *testing.T) {
	w := newWorld(t)
	addr := startEtcd(t)
	w.serves("etcd://me:s3cret@"+addr+"/ci/locks", addr, "deploy/prod", "10s")
	w.refuses([]refusal{
		{"etcd://me:wrong-s3cret@" + addr, "password", exit.Denied},
		{"etcd://me:s3cret@" + addr, "may not read and write", exit.Denied},
		{"etcd://127.0.0.1:1,127.0.0.1:2", "is the server running", exit.Unavailable},
		{"etcd://me:s3cret@" + addr + "?nonsense=1", "nonsense", exit.Config},
	}, "run deploy true")
}
