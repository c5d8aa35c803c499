// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// TestDeployments runs the suite behind sentinels, and for a user with the least rights. TestUnixSocket and TestTLS show
// that clients reach a server in other ways.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (url string){
		"Sentinel":    func(t *testing.T) string { return startGroup(t).url },
		"LeastRights": conformLeastRights,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conform(t, start(t))
		})
	}
}

// TestReplicatedClients: with WaitReplicas no message is trusted, as it may come before the replicas have the lease.
// What clients make of that is all that there is to check.
func TestReplicatedClients(t *testing.T) {
	t.Parallel()
	opts := &Options{MaxTTL: time.Minute, ConnectTimeout: slowConnect}
	master, _ := startReplicated(t)
	bless(t, master.url(), opts)
	wiretest.RunClients(t, wiretest.Clients{Open: func(t testing.TB) *pawl.Client {
		c, err := Open(context.Background(), master.url()+"?wait_replicas=2", opts)
		must(t, err)
		return c
	}})
}

func conform(t *testing.T, url string) {
	opts := wireOptions(time.Minute)
	bless(t, url, opts)
	service := wiretest.Service{Open: func(t testing.TB) driver.Store {
		d, err := NewStore(context.Background(), url, opts)
		must(t, err)
		return d
	}}
	wiretest.Run(t, wiretest.Harness{
		Start:    func(testing.TB) wiretest.Service { return service },
		Parallel: true,
		Golden:   "testdata/wire-deployments.txt",
	})
}

func conformLeastRights(t *testing.T) string {
	r := startServer(t)
	if out := r.do(append([]string{"acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:*", "&pawl:client:*"}, leastRights...)...); out != "OK" {
		t.Fatal(out)
	}
	return "redis://app:s3cret@" + r.Addr
}

func awaitListener(t *testing.T, network, addr string) {
	t.Helper()
	if !eventually(patience, func() bool { c, err := net.Dial(network, addr); return err == nil && c.Close() == nil }) {
		t.Fatalf("nobody listens at %s", addr)
	}
}
