// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/drivertest/wiretest"
)

// TestDeployments runs the suite on one server that is reached in each of the ways
// there are, by a user with the least rights. TestWire, on one that is
// reached directly, cuts links and restarts, too.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (url string){
		"Unix":        conformUnix,
		"TLS":         conformTLS,
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
	if err := Bless(t.Context(), master.url(), opts); err != nil {
		t.Fatal(err)
	}
	wiretest.RunClients(t, wiretest.Clients{Open: func(t testing.TB) *pawl.Client {
		c, err := Open(context.Background(), master.url()+"?wait_replicas=2", opts)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}})
}

func conform(t *testing.T, url string) {
	opts := &Options{MaxTTL: time.Minute, ConnectTimeout: slowConnect}
	opts.TTL = driverTTL
	if err := Bless(t.Context(), url, opts); err != nil {
		t.Fatal(err)
	}
	service := wiretest.Service{Open: func(t testing.TB) driver.Store {
		d, err := NewStore(context.Background(), url, opts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}}
	wiretest.Run(t, wiretest.Harness{
		Start:    func(testing.TB) wiretest.Service { return service },
		Parallel: true,
		Golden:   "testdata/wire-deployments.txt",
	})
}

func conformUnix(t *testing.T) string {
	sock := filepath.Join(t.TempDir(), "s")
	startServer(t, "--unixsocket", sock)
	awaitListener(t, "unix", sock)
	return "unix://" + sock
}

func conformTLS(t *testing.T) string {
	cert, key, _ := servers.Certificate(t)
	addr := drivertest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	startServer(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	awaitListener(t, "tcp", addr)
	return "rediss://" + addr + "?ca_file=" + cert
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
