// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// TestNewMasterWhoseClockIsBehind: a waiter is handed the lock and does not hear of it. The
// claim ends, and another client has the lock. A replica is promoted that lacks only that,
// and for which the claim has not ended.
func TestNewMasterWhoseClockIsBehind(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute
	opts := optionsOf(ttl)
	req := func() *driver.Request { return lasting("deploy", ttl) }
	before := startServer(t, "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes")
	before.do("debug", "set-active-expire", "0") // so that the claim is there until the next client asks
	after, set := clockServer(t, "--repl-diskless-sync-delay", "0")
	set(-ttl / 2)
	bless(t, before.url(), opts)
	copied := drivertest.NewLink(t, before.Addr) // to the replica
	host, port, _ := net.SplitHostPort(copied.Addr())
	after.do("replicaof", host, port)
	await(t, "the replica gets no data", func() bool { return epoch.ParseInfo(after.do("info", "replication"))["master_link_status"] == "up" })
	link := drivertest.NewLink(t, before.Addr)
	deaf := openThrough(t, link, opts)
	defer deaf.Close()
	first, next := open(t, before.url(), opts), open(t, before.url(), opts)
	held := take(t, first, req())
	waits := wait(t, before, deaf.party, req())
	release(t, take(t, deaf, long("other"))) // answers come in order: the waiter knows that it is in the queue
	link.Set(drivertest.BlackHole)
	release(t, held)
	lock := lockKey(defaultPrefix, "deploy")
	claim := before.do("get", lock)
	if claim == "" || !eventually(patience, func() bool { return after.do("get", lock) == claim }) {
		t.Fatalf("the replica has not %q", claim)
	}
	copied.Set(drivertest.BlackHole)
	var other *participant.Lease
	if !eventually(patience, func() (ok bool) {
		var err error
		other, err = next.TryAcquire(t.Context(), req())
		return err == nil
	}) {
		t.Fatal("the claim does not end")
	}
	before.kill()
	after.do("replicaof", "no", "one")
	if after.do("get", lock) != claim {
		t.Fatal("the claim has ended at the new master, too")
	}
	link.Move(after.Addr)
	link.Set(drivertest.Healthy)
	await(t, "the waiter does not look at the new master", func() bool {
		select {
		case <-waits.done:
			return true
		default:
			return queueLen(after, "deploy") == 1
		}
	})
	select {
	case <-waits.done:
		if waits.err != nil {
			t.Fatal(waits.err)
		}
		t.Errorf("the waiter has token %d, and another client trusts token %d for another %v", waits.grant.Token(), other.Token(),
			other.Since().Add(ttl-driver.Drift(ttl)).Sub(driver.Now()))
	default:
		waits.cancel()
		<-waits.done
	}
}

// TestOwnLockInQuarantine: an attempt that has the lock without knowing it asks while the
// server is closed. It is granted the lock when that is over, and then is in no queue: the
// next request would grant it the lock once more there, and for a claim only.
func TestOwnLockInQuarantine(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(*driver.Request){
		"exclusive": func(*driver.Request) {},
		"shared":    func(r *driver.Request) { r.Shared = true },
		"slots":     func(r *driver.Request) { r.Slots = 2 },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			opts := optionsOf(time.Minute)
			r := startServer(t)
			bless(t, r.url(), opts)
			req := long("deploy")
			change(req)
			s := open(t, r.url(), opts)
			first, err := s.store.Ask(t.Context(), req)
			if err != nil || !first.Granted {
				t.Fatalf("Ask = %v, %v; want a grant", first, err)
			}
			record := strings.Split(r.do("get", defaultPrefix+"epoch"), " ")
			record[4] = strconv.FormatInt(time.Now().Add(time.Minute).UnixMicro(), 10) // until when it is closed
			r.do("set", defaultPrefix+"epoch", strings.Join(record, " "))
			if ans, err := s.store.Ask(t.Context(), req); err != nil || ans.Closed <= 0 {
				t.Errorf("Ask while the server is closed = %v, %v; want that it is", ans, err)
			}
			w := wait(t, r, s, req) // returns when it is in the queue
			bless(t, r.url(), opts)
			g := w.granted(2 * patience)
			if g.Token() != first.Token {
				t.Errorf("granted token %d; want %d, which the lock has", g.Token(), first.Token)
			}
			if n := queueLen(r, "deploy"); n != 0 {
				t.Errorf("%d wait; want nobody", n)
			}
		})
	}
}
