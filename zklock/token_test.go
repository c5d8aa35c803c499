// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestTokens: between those of two transactions there is room for what is set aside, and
// the largest is below 2^63.
func TestTokens(t *testing.T) {
	for _, czxid := range []int64{1, 2, 1 << 32, maxCzxid - 10} {
		if token, next := tokenOf(czxid, 8, czxid+9), tokenOf(czxid, 9, czxid+10); token+reserved >= next || token>>tokenBits != uint64(czxid)+9 {
			t.Errorf("nodes 8 and 9 after transaction %#x: tokens %d and %d", czxid, token, next)
		}
	}
	for _, parent := range []int64{maxCzxid - 3, 1} {
		if last := tokenOf(parent, 2, maxCzxid) + reserved; last != math.MaxInt64 {
			t.Errorf("node 2 after transaction %#x has the last token %d; want 2^63-1", parent, last)
		}
	}
	for _, czxid := range []int64{maxCzxid - 2, maxCzxid + 1, math.MaxInt64, -9} {
		for _, parent := range []int64{czxid, 1} {
			if got := tokenOf(parent, 2, max(czxid, maxCzxid+1)); got != 0 {
				t.Errorf("node 2 after transaction %#x has token %d; want none", parent, got)
			}
		}
	}
}

// TestTokensGrow enumerates what may happen between the leases of a name. Each has a greater token than the last, and
// none a greater one than its node's transaction, so that a name's node that is made anew goes on above it.
func TestTokensGrow(t *testing.T) {
	type servers struct{ zxid, parent, seq int64 }
	elect := func(s servers) servers { s.zxid = (epoch(s.zxid) + 1) << 32; return s }
	act := func(s servers) servers { s.zxid++; return s }
	var walk func(now, backup servers, last uint64, done string)
	walk = func(now, backup servers, last uint64, done string) {
		if strings.Count(done, " ") == 7 {
			return
		}
		next := act(now)
		token := tokenOf(next.parent, next.seq, next.zxid)
		if token <= last || token > uint64(next.zxid)<<tokenBits {
			t.Fatalf("%s: the next lease has token %#x after %#x, by transaction %#x", done, token, last, next.zxid)
		}
		next.seq++
		walk(next, backup, token, done+" lease")
		walk(act(now), backup, last, done+" other")
		walk(elect(now), backup, last, done+" election")
		next = act(now)
		next.parent, next.seq = next.zxid, 0
		walk(next, backup, last, done+" anew")
		walk(now, now, last, done+" backup")
		if epoch(backup.zxid) == epoch(now.zxid) {
			walk(elect(backup), backup, last, done+" restore")
		}
	}
	first := servers{zxid: 1<<32 + 5, parent: 1<<32 + 5}
	walk(first, first, 0, "")
}

// TestEpochsRunOut: a server that has led so often that its transactions are no tokens
// any more gives nobody a lock, nor a place in the queue, and the error says what to do.
func TestEpochsRunOut(t *testing.T) {
	t.Parallel()
	const last = maxCzxid >> 32 // epoch
	s := startAged(t, last-1)
	d := openURL(t, s.url(), time.Minute)
	g := take(t, d, request("deploy", time.Minute))
	if epoch := g.Token() >> tokenBits >> 32; epoch != last {
		t.Errorf("token %d is of epoch %d; want %d", g.Token(), epoch, last)
	}
	if n, others := g.Lease.Reserved(); n != reserved || !others {
		t.Errorf("Reserved = %d, %v; want %d, true", n, others, reserved)
	}
	release(t, g)
	s.restart(t) // one more epoch, in which the node of another name is made
	for _, acquire := range []func() (*participant.Lease, error){
		func() (*participant.Lease, error) { return d.TryAcquire(t.Context(), request("deploy", time.Minute)) },
		func() (*participant.Lease, error) { return d.Acquire(t.Context(), request("another", time.Minute)) },
	} {
		var g *participant.Lease
		var err error
		if !eventually(patience, func() bool {
			g, err = acquire()
			return g != nil || errors.Is(err, errEpochs)
		}) || g != nil || !strings.Contains(err.Error(), fmt.Sprint("epoch ", last+1)) {
			t.Errorf("in the epoch after the last = %v, %v; want it refused", g, err)
		}
	}
	if n := append(childrenOf(t, d, "another"), childrenOf(t, d, "deploy")...); len(n) != 0 {
		t.Errorf("there are the nodes %q; want none", n)
	}
}

// startAged starts an ensemble of one, which has been led so often.
func startAged(t testing.TB, epoch int64) *server {
	t.Helper()
	_, quorum, _ := net.SplitHostPort(drivertest.FreeAddr(t))
	_, election, _ := net.SplitHostPort(drivertest.FreeAddr(t))
	s := newServer(t.TempDir(), "standaloneEnabled=false", "initLimit=100", "syncLimit=200", fmt.Sprintf("server.1=127.0.0.1:%s:%s", quorum, election))
	must(t, os.Mkdir(filepath.Join(s.Dir, "version-2"), 0o700))
	for name, text := range map[string]string{"myid": "1", "version-2/acceptedEpoch": fmt.Sprint(epoch), "version-2/currentEpoch": fmt.Sprint(epoch)} {
		must(t, os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600))
	}
	t.Cleanup(s.End)
	must(t, s.Start())
	return s
}

// TestRestoredBackup: a client refuses what servers grant that have gone back, and leaves
// nothing there.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	s := startServer(t)
	release(t, take(t, openURL(t, s.url(), ttl), request("deploy", ttl)))
	restore, err := s.Backup(filepath.Join(s.Dir, "version-2"))
	must(t, err)
	d := openURL(t, s.url(), ttl)
	for range 50 {
		release(t, take(t, d, request("deploy", ttl)))
	}
	must(t, restore())
	for _, name := range []string{"deploy", "another"} {
		var g *participant.Lease
		if !eventually(2*patience, func() bool { // the session that the servers do not know has to end
			g, err = d.TryAcquire(t.Context(), request(name, ttl))
			return !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain)
		}) {
			t.Fatalf("TryAcquire = %v", err)
		}
		if g != nil || !errors.Is(err, errBack) {
			t.Errorf("TryAcquire of %q = %v, %v; want what to do after a restore", name, g, err)
		}
	}
	release(t, take(t, openURL(t, s.url(), ttl), request("deploy", ttl)))
}

// TestRestoredEnsemble: the servers are restored from a backup that was made while they ran. The election begins a new
// epoch, so the restored node of the name gives greater tokens than before, to new clients, too.
func TestRestoredEnsemble(t *testing.T) {
	t.Parallel()
	const ttl, name = 20 * time.Second, "deploy"
	s := startAged(t, 1)
	d := openURL(t, s.url(), ttl)
	release(t, take(t, d, request(name, ttl)))
	live, backup := filepath.Join(s.Dir, "version-2"), t.TempDir()
	must(t, os.CopyFS(backup, os.DirFS(live)))
	last := uint64(0)
	for range 20 {
		g := take(t, d, request(name, ttl))
		last = g.Token()
		release(t, g)
	}
	s.Kill()
	must(t, os.RemoveAll(live))
	must(t, os.CopyFS(live, os.DirFS(backup)))
	s.restart(t)
	for _, c := range []*client{openURL(t, s.url(), ttl), d} { // d itself refuses tokens that it has had
		var g *participant.Lease
		var err error
		req := request(name, ttl)
		if !eventually(2*patience, func() bool { // the session that the servers do not know has to end
			g, err = c.TryAcquire(t.Context(), req)
			return err == nil
		}) {
			t.Fatalf("TryAcquire = %v", err)
		}
		if g.Token() <= last {
			t.Errorf("token %d after %d", g.Token(), last)
		}
		last = g.Token()
		if info, err := c.Inspect(t.Context(), name); err != nil || uint64(info.Token) != last {
			t.Errorf("Inspect shows token %v, %v; want %d", info, err, last)
		}
		n := c.lease(g, req).n
		wait(t, c, request(name, ttl)).GiveUp()
		if _, _, err := n.place(t.Context()); err != nil || n.token != last {
			t.Errorf("after another node has come, the token is %d, %v; want %d", n.token, err, last)
		}
		release(t, g)
	}
}

// TestOldNodeIsNoRestore: an attempt is repeated after another name was granted, and takes a node
// of its own that was made before that. The servers have not gone back.
func TestOldNodeIsNoRestore(t *testing.T) {
	t.Parallel()
	e := new(eater)
	const ttl, name = 20 * time.Second, "old-node"
	d := e.open(t, sharedServer(t), ttl)
	release(t, take(t, d, request(name, ttl))) // the node of the name is there now
	req := request(name, ttl)
	e.eat(opCreate, 0)
	if _, err := d.wire.Ask(t.Context(), req); !driver.FailureOf(err).Maybe {
		t.Fatalf("Ask = %v; want its answer to be lost", err)
	}
	release(t, take(t, d, request(name+"/another", ttl)))
	release(t, take(t, d, req))
}
