// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// TestGRPCProxy: a grpc-proxy, whose answers to keepalives say nothing of when ours was sent, is refused.
func TestGRPCProxy(t *testing.T) {
	t.Parallel()
	m, addr := startServer(t), drivertest.FreeAddr(t)
	proxy := exec.Command("etcd", "grpc-proxy", "start", "--endpoints", m.Addr, "--listen-addr", addr)
	must(t, proxy.Start())
	t.Cleanup(func() {
		proxy.Process.Kill()
		proxy.Wait()
	})
	var err error
	if !eventually(patience, func() bool {
		var d interface{ Close() error }
		if d, err = NewStore(t.Context(), "etcd://"+addr, &Options{Options: pawl.Options{TTL: 5 * time.Second}}); err == nil {
			d.Close()
		}
		return !errors.Is(err, pawl.ErrUnavailable)
	}) {
		t.Fatalf("the proxy does not serve: %v", err)
	}
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "etcd gateway") {
		t.Errorf("NewStore through a grpc-proxy = %v; want it refused, and what to do", err)
	}
}
