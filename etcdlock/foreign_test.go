// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/namespace"
)

// TestNamespaceIsRefused: some requests would go past the namespace, and nobody would see
// the lock of the program that has it.
func TestNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	client.KV = namespace.NewKV(client.KV, "app/")
	if d, err := NewStoreFor(client, &Options{Pattern: "/locks/*"}); err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("NewStoreFor = %v, %v; want an error that names the namespace", d, err)
	}
}

// TestBreakOfAnotherLibrary: a session of package concurrency has the same key for all its
// leases of a name. The id of one that has ended does not break the next, and a break
// leaves no news for a client that reads none.
func TestBreakOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	c := openClient(t, m.url()+"?pattern=/locks/*", time.Minute)
	mutex := concurrency.NewMutex(otherSession(t, m), "/locks/deploy")
	id := func() string {
		t.Helper()
		if err := mutex.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := c.Inspect(t.Context(), "deploy")
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("Inspect = %+v, %v; want one holder", info, err)
		}
		return info.Holders[0].Lease
	}
	old := id()
	if err := mutex.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := id()
	if err := c.Break(t.Context(), "deploy", old, "it hangs"); err == nil {
		t.Error("the id of a lease that has ended broke the next")
	}
	if err := c.Break(t.Context(), "deploy", next, "it hangs"); err != nil {
		t.Errorf("Break = %v", err)
	}
	if keys := m.ctl("get", "pawl/broken", "--prefix", "--keys-only"); strings.TrimSpace(keys) != "" {
		t.Errorf("the break left %q", keys)
	}
}

// TestPatternShowsItsNames: with a Pattern names are in keys as they are, so what looks
// like an escaped name is another.
func TestPatternShowsItsNames(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	c := openClient(t, m.url()+"?pattern=/locks/*", time.Minute)
	m.ctl("put", "/locks/a%2Fb/77", "")
	if info, err := c.Inspect(t.Context(), "a/b"); err == nil {
		t.Errorf("Inspect of a name that cannot be = %+v; want an error", info)
	}
	all, err := c.List(t.Context(), "")
	if err != nil || len(all) != 1 || all[0].Name != "a%2Fb" {
		t.Errorf("List = %v, %v; want the name that is in the key", all, err)
	}
}
