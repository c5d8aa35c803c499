// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestDeployments runs the suite on one server that is reached in each of the ways
// there are, by a user with the least rights. TestConformance, on one that is
// reached directly, cuts links and restarts, too.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (url string){
		"Unix":     conformUnix,
		"TLS":      conformTLS,
		"Sentinel": func(t *testing.T) string { return startGroup(t).url },
		"Replicas": func(t *testing.T) string {
			master, _ := startReplicated(t)
			return master.url() + "?wait_replicas=2"
		},
		"LeastRights": conformLeastRights,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conform(t, start(t))
		})
	}
}

func conform(t *testing.T, url string) {
	opts := &Options{MaxTTL: suiteMaxTTL}
	opts.TTL = driverTTL
	if err := Bless(t.Context(), url, opts); err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, drivertest.Harness{
		Start: func(testing.TB) drivertest.Store {
			return drivertest.Store{Open: func(t testing.TB) driver.Driver {
				d, err := NewDriver(context.Background(), url, opts)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}}
		},
		TTL:       suiteTTL,
		Slack:     suiteSlack,
		Pause:     10 * suitePause, // each participant makes a connection for messages first
		Histories: 8,
		Parallel:  true,
		Golden:    "testdata/conformance-deployments.txt",
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
