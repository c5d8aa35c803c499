// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestNamespaceIsRefused: some requests would go past the namespace, and nobody would see
// the lock of the program that has it.
func TestNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must(t, err)
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
		must(t, mutex.Lock(t.Context()))
		info, err := c.Inspect(t.Context(), "deploy")
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("Inspect = %+v, %v; want one holder", info, err)
		}
		return info.Holders[0].Lease
	}
	old := id()
	must(t, mutex.Unlock(t.Context()))
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

// TestForeignKeys: a key without an etcd lease, under the name of a lock, keeps the lock for ever. A request for it fails at
// once with the key and the command that deletes it. Examine finds it as well.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	a, b := openStore(t, m.url()), openStore(t, m.url())
	held := take(t, a, request("held"))
	w := wait(t, b, request("held"))
	if found := b.endless(t.Context()); len(found) > 0 {
		t.Errorf("the keys of locks are not well: %+v", found)
	}
	for key, of := range map[string]func(*driver.Request){
		"pawl/lock/it's/x/1": func(*driver.Request) {},
		"pawl/lock/it's/r/1": func(*driver.Request) {},
		"pawl/lock/it's/x/2": func(r *driver.Request) { r.Shared = true },
		"pawl/lock/it's/s2/": func(r *driver.Request) { r.Slots = 2 }, // after two good ones
	} {
		key += "0"
		req := request("it's")
		of(req)
		var good []*grant
		if req.Slots > 0 {
			one := request("it's")
			of(one)
			good = append(good, take(t, a, one))
		}
		m.ctl("put", key, "by hand")
		for how, acquire := range map[string]func(context.Context, *driver.Request) (*participant.Lease, error){"TryAcquire": b.TryAcquire, "Acquire": b.Acquire} {
			var err error
			if !eventually(patience, func() bool { // a slow server may not answer in time
				again := *req
				again.Lease = how + rand.Text()
				_, err = acquire(t.Context(), &again)
				return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), `etcdctl del 'pawl/lock/it'\''s/`)
			}) {
				t.Errorf("%s beside %s = %v; want ErrUnavailable with the command to paste", how, key, err)
			}
		}
		if found := b.endless(t.Context()); len(found) != 1 || found[0].Level != driver.Problem || !strings.Contains(found[0].Text, key) {
			t.Errorf("%s: found %+v; want a problem", key, found)
		}
		for _, g := range good {
			release(t, g)
		}
		if err := a.Break(t.Context(), "it's", key[strings.LastIndex(key, "/")+1:], nil, "by hand"); err != nil { // leaves no news: they would stay for ever
			t.Error(err)
		}
		g := take(t, b, req)
		release(t, g)
	}
	release(t, held)
	release(t, w.granted(patience))
	nothingLeft(t, a)
}
