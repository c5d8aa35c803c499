// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// acquireScript runs the script of leases that outlive their process. All but one last ten minutes.
func acquireScript(t *testing.T, store string) {
	t.Helper()
	p := scripts(func(string) string { return store })
	p.Files = []string{"testdata/script/servers/acquire.txtar"}
	testscript.Run(t, p)
}

func TestAcquireRedis(t *testing.T) {
	acquireScript(t, newWorld(t).blessed("redis://"+startRedis(t)+"?max_ttl=10m"))
}

func TestAcquireRedisCluster(t *testing.T) {
	acquireScript(t, newWorld(t).blessed("redis://:s3cret@"+startCluster(t, "--requirepass", "s3cret")+"?max_ttl=10m"))
}

func TestAcquirePostgres(t *testing.T) {
	acquireScript(t, newWorld(t).blessed(servers.StartPostgres(t).URL("pawl")+"&max_ttl=10m"))
}

func TestAcquireEtcd(t *testing.T) {
	newWorld(t)
	acquireScript(t, "etcd://me:s3cret@"+startEtcd(t)+"/ci/locks")
}

// TestAcquireRefused: where a lease cannot outlive its process, or be told from one that has
// ended, nothing is taken and the error says what to use.
func TestAcquireRefused(t *testing.T) {
	w := newWorld(t)
	redlock, _ := startRedlock(w.T, electTTL)
	for _, store := range []string{"zk://" + startZooKeeper(t) + "/locks?tick_time=500ms", redlock, "redis://" + startRedis(t) + "?mode=efficiency&max_ttl=5s"} {
		for _, words := range []string{"acquire deploy -n --ttl 5s", "renew deploy --lease x --ttl 5s", "release deploy --lease x"} {
			p := w.pawl(append(strings.Fields(words), "-s", store)...)
			p.end(exit.Config)
			if got := p.stderr(); !strings.Contains(got, "in this store only the process") || !strings.Contains(got, "pawl run ") || p.stdout() != "" {
				t.Errorf("%s: stderr is %q, stdout %q; want what to use", words, got, p.stdout())
			}
		}
	}
}
