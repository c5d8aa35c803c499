// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

func patterned() *Options {
	opts := longOptions()
	opts.Pattern = "lock:*"
	return opts
}

// patternedServer returns a server on which clients with the pattern are granted locks.
func patternedServer(t testing.TB) *redis {
	t.Helper()
	r := startServer(t)
	bless(t, r.url(), patterned())
	return r
}

// unlock is how clients of other libraries let go.
const unlock = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

// TestPattern: clients that lock by SET NX PX a key that our pattern makes exclude ours, and
// the other way round; neither can end what the other has.
func TestPattern(t *testing.T) {
	t.Parallel()
	r := patternedServer(t)
	s := open(t, r.url(), patterned())
	theirs := func() bool { return r.do("set", "lock:deploy", "random", "nx", "px", "60000") == "OK" }
	if !theirs() {
		t.Fatal("SET NX fails")
	}
	_, err := s.TryAcquire(t.Context(), long("deploy"))
	var held *driver.HeldError
	if !errors.As(err, &held) || held.Info == nil || len(held.Info.Holders) != 1 || !strings.Contains(held.Info.Holders[0].Who, "another library") {
		t.Fatalf("TryAcquire of what they have = %v; want ErrHeld by a client of another library", err)
	}
	w := make(chan *participant.Lease)
	go func() {
		g, err := s.Acquire(t.Context(), long("deploy"))
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		w <- g
	}()
	await(t, "Acquire does not join the queue", func() bool { return r.do("zcard", "pawl:{lock:deploy}:queue") == "1" })
	infos, err := s.List(t.Context(), "dep")
	if err != nil || len(infos) != 1 || infos[0].Name != "deploy" || len(infos[0].Holders) != 1 || len(infos[0].Waiters) != 1 {
		t.Errorf("List = %v, %v; want one name with a holder and a waiter", infos, err)
	}
	if n := r.do("eval", unlock, "1", "lock:deploy", "random"); n != "1" {
		t.Fatalf("their release: %s", n)
	}
	g := <-w
	if g == nil {
		return
	}
	if theirs() {
		t.Error("they get what we have")
	}
	if n := r.do("eval", unlock, "1", "lock:deploy", "random"); n != "0" {
		t.Errorf("their release ends our lease: %s", n)
	}
	renews(t, g)
	release(t, g)
	if !theirs() {
		t.Error("they do not get what we have released")
	}
	keys := strings.Fields(r.do("keys", "*"))
	slices.Sort(keys)
	floor := strings.TrimPrefix(s.server.FloorKey("lock:deploy"), "pawl:token:")
	if got := strings.Join(keys, " "); got != "lock:deploy pawl:epoch pawl:epoch:seal pawl:pattern pawl:token:"+floor {
		t.Errorf("the keys are %s", got)
	}
	// Another library does not say when it lets go, so the first waiter looks often.
	waits := long("deploy")
	waits.Queue = true
	ans, err := s.store.Ask(t.Context(), waits)
	if err != nil || ans.Granted || ans.Free <= 0 || ans.Free > 2*foreignLook {
		t.Errorf("Ask of a waiter = %+v, %v; want that it looks again within %v", ans, err, 2*foreignLook)
	}
	// Break would hand the lock over to the waiter.
	succeeds(t, "End of the waiter", errorOf(s.store.End(t.Context(), driver.Ref{Name: waits.Name, Lease: waits.Lease, Handle: ans.Handle}, driver.End{Unsure: true})))
	succeeds(t, "Break of another library's lock", s.Break(t.Context(), "deploy", "random", nil, ""))
	if r.do("exists", "lock:deploy") != "0" {
		t.Error("the lock is there after Break")
	}
}

// TestPatternOfAnotherType: Redisson's locks are hashes. Neither side gets what the other has. A key of another type is
// shown as a lock, and keeps nobody from seeing the others.
func TestPatternOfAnotherType(t *testing.T) {
	t.Parallel()
	r := patternedServer(t)
	s := open(t, r.url(), patterned())
	r.do("hset", "lock:deploy", "uuid:1", "1")
	if g, err := s.TryAcquire(t.Context(), long("deploy")); err == nil || !strings.Contains(err.Error(), "used by another program") {
		t.Errorf("TryAcquire of a hash = %v, %v; want an error that says what it is", g, err)
	}
	if n := r.do("hlen", "lock:deploy"); n != "1" {
		t.Errorf("the hash has %s fields", n)
	}
	r.do("rpush", "lock:list", "x")
	take(t, s, long("ours"))
	infos, err := s.List(t.Context(), "")
	if err != nil || len(infos) != 3 {
		t.Fatalf("List = %v, %v; want three names", infos, err)
	}
	for _, info := range infos {
		if len(info.Holders) != 1 || strings.Contains(info.Holders[0].Who, "another library") == (info.Name == "ours") {
			t.Errorf("%s is held by %+v", info.Name, info.Holders)
		}
	}
	r.do("del", "lock:deploy")
	g := take(t, s, long("deploy"))
	if out := r.do("hexists", "lock:deploy", "uuid:1"); !strings.Contains(out, "WRONGTYPE") {
		t.Errorf("HEXISTS on our lock says %q", out)
	}
	release(t, g)
}

// TestPatternWorks: all operations, with keys that have a hash tag and such that have none.
func TestPatternWorks(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	for _, pattern := range []string{"lock:*", "*", "{app}:*", "a{*}b"} {
		works(t, r.url()+"?prefix="+strings.NewReplacer("*", "x", "{", "(", "}", ")").Replace(pattern)+"p&pattern="+pattern)
	}
}

// TestPatternIsAgreedOn: a client with another pattern, or with none, is refused.
func TestPatternIsAgreedOn(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	open(t, r.url(), nil).Close() // alone it leaves nothing that would keep others out
	open(t, r.url(), patterned())
	open(t, r.url(), patterned())
	for pattern, want := range map[string]string{"": "no Pattern is set here", "*": `the Pattern here is "*"`} {
		opts := longOptions()
		opts.Pattern = pattern
		fails(t, "with the pattern "+strconv.Quote(pattern), errorOf(NewStore(t.Context(), r.url(), opts)), driver.ErrDisagree, "lock:*", want)
		opts.Prefix = strconv.Itoa(len(pattern)) + ":" // another one for each
		if d, err := NewStore(t.Context(), r.url(), opts); err != nil {
			t.Errorf("with the pattern %q and another prefix: %v", pattern, err)
		} else {
			d.Close()
		}
	}
}

// TestPatternIsNotRead: the server closes each connection that reads or writes the pattern. No lease is in doubt.
func TestPatternIsNotRead(t *testing.T) {
	t.Parallel()
	r := startServer(t)
	for _, command := range []string{"get", "set"} {
		between := &forgetful{t: t, to: r.Addr, forgets: func(call [][]byte) bool {
			if strings.EqualFold(string(call[0]), command) {
				r.Do("CLIENT", "KILL", "TYPE", "normal")
			}
			return false
		}}
		if _, err := NewStore(t.Context(), "redis://"+between.listen(), patterned()); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
			t.Errorf("%s: NewStore = %v; want ErrUnavailable, and not ErrUncertain", command, err)
		}
	}
}

// TestPatternAfterClientsWithout: where clients without a pattern have been granted locks, a
// client with one is refused, and records none. They would not exclude each other.
func TestPatternAfterClientsWithout(t *testing.T) {
	t.Parallel()
	r := blessedServer(t)
	release(t, take(t, open(t, r.url(), longOptions()), long("deploy")))
	for range 2 {
		if _, err := NewStore(t.Context(), r.url(), patterned()); !errors.Is(err, driver.ErrDisagree) || !strings.Contains(err.Error(), "clients without a Pattern") {
			t.Fatalf("NewStore with a pattern = %v; want ErrDisagree", err)
		}
	}
	open(t, r.url(), longOptions())
	other := patterned()
	other.Prefix = "other:"
	open(t, r.url(), other)
}

func TestPatternRefusals(t *testing.T) {
	t.Parallel()
	r := patternedServer(t)
	s := open(t, r.url(), patterned())
	fails(t, "TryAcquire of a name with a brace", errorOf(s.TryAcquire(t.Context(), long("a}b"))), nil, "braces")
	if _, err := s.Inspect(t.Context(), "a}b"); err == nil {
		t.Error("Inspect of a name with a brace succeeds")
	}
	if err := s.Break(t.Context(), "a}b", "x", nil, ""); err == nil || errors.Is(err, driver.ErrReleased) {
		t.Errorf("Break of a name with a brace = %v", err)
	}
	for _, pattern := range []string{"lock", "*:*", "pawl:*"} {
		opts := longOptions()
		opts.Pattern = pattern
		fails(t, "the pattern "+strconv.Quote(pattern), errorOf(NewStore(t.Context(), r.url(), opts)), nil, "pattern")
	}
}

// TestClusterPattern: with keys without a hash tag all keys of a lock are in one slot, too.
func TestClusterPattern(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 0)
	for _, pattern := range []string{"lock:*", "{app}:*"} {
		works(t, "redis://"+c.masters[0].Addr+"?prefix=p"+strings.Trim(pattern[:1], "{")+":&pattern="+pattern)
	}
	opts := patterned()
	bless(t, c.url(), opts)
	s := open(t, c.url(), opts)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		req := reading(long(name))
		g := take(t, s, req)
		release(t, g)
		release(t, lowered(t, take(t, s, long(name)), long(name)))
	}
}
