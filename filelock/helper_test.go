// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// client is a participant with its store, whose methods it shows if it has none of that name.
type client struct {
	*participant.Participant
	deeper
}

type deeper struct{ *store }

func clientOf(d driver.Store) client {
	return client{participant.New(d, participant.Options{}), deeper{d.(*store)}}
}

func open(t testing.TB, dir string) client {
	t.Helper()
	d, err := NewStore(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := clientOf(d)
	t.Cleanup(func() { c.Close() })
	return c
}

// hold returns what the client has open for a grant.
func (c client) hold(g *participant.Lease) *hold {
	var found *hold
	leases.Range(func(k, l any) bool {
		h, ok := l.(*hold)
		if ok && h.store == c.store && h.token() == g.Token() {
			found = h
		}
		return found == nil
	})
	return found
}

func request(name string) *driver.Request {
	return &driver.Request{
		Name: name, Lease: rand.Text(), TTL: time.Minute, Holder: &driver.Holder{Who: "test"}, Why: "testing",
	}
}

// asked returns a request for an exclusive lease, or for one of a kind: "shared", or "slots3" for one of three slots.
func asked(name, kind string) *driver.Request {
	req := request(name)
	req.Shared = kind == "shared"
	if n, ok := strings.CutPrefix(kind, "slots"); ok {
		req.Slots, _ = strconv.Atoi(n)
	}
	return req
}

func acquire(t testing.TB, s client, name string, kind ...string) *participant.Lease {
	t.Helper()
	g, err := s.TryAcquire(context.Background(), asked(name, strings.Join(kind, "")))
	if err != nil {
		t.Fatalf("TryAcquire %s = %v", kind, err)
	}
	return g
}

func mustBusy(t testing.TB, s client, name string) {
	t.Helper()
	if _, err := s.TryAcquire(context.Background(), request(name)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld", err)
	}
}

func release(t testing.TB, g *participant.Lease) {
	t.Helper()
	if err := g.Release(context.Background()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

func look(t testing.TB, s client, name string) *driver.Info {
	t.Helper()
	info, err := s.Inspect(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// pause lasts for some milliseconds.
func pause(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

// memoryDir returns a directory in memory where there is one.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "filelock")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
