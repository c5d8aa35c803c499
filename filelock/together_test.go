// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/participant"
)

// waitFor starts an Acquire and returns when it is in the queue.
func (s client) waitFor(t testing.TB, name, kind string) <-chan *participant.Lease {
	t.Helper()
	got := make(chan *participant.Lease, 1)
	before := queueLen(s, name)
	go func() {
		g, err := s.Acquire(context.Background(), asked(name, kind))
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		got <- g
	}()
	eventually(t, "it is in the queue", func() bool { return queueLen(s, name) > before })
	return got
}

func come(t testing.TB, got <-chan *participant.Lease) *participant.Lease {
	t.Helper()
	select {
	case g := <-got:
		if g == nil {
			t.FailNow() // Acquire has failed, and said why
		}
		return g
	case <-time.After(patience):
		t.Fatalf("it waits still\n%s", stacks())
		return nil
	}
}

// TestWokenTogether: whoever waits is woken, and does not find out by looking now
// and then. It is not parallel, as it changes how often they look.
func TestWokenTogether(t *testing.T) {
	defer func(d time.Duration) { lookEvery = d }(lookEvery)
	lookEvery = time.Hour
	s := open(t, t.TempDir())

	writer := acquire(t, s, "a")
	readers := []<-chan *participant.Lease{s.waitFor(t, "a", "shared"), s.waitFor(t, "a", "shared")}
	next := s.waitFor(t, "a", "")
	release(t, writer)
	for _, r := range readers {
		release(t, come(t, r))
	}
	g := come(t, next)

	// Again and again: whoever is late to wait for those before it finds out without.
	for range 20 {
		var slots []<-chan *participant.Lease
		for range 6 {
			slots = append(slots, s.waitFor(t, "a", "slots3"))
		}
		next = s.waitFor(t, "a", "")
		release(t, g)
		held := []*participant.Lease{come(t, slots[0]), come(t, slots[1]), come(t, slots[2])}
		for i := range held { // the newest first, and then one that is neither that nor the oldest
			release(t, held[2-i])
			held[2-i] = come(t, slots[3+i])
		}
		for _, g := range held {
			release(t, g)
		}
		g = come(t, next)
	}
	release(t, g)
}

// TestWaitForTheLeaving: of a holder that is leaving one does not see any more what kind
// of lease it has. Whoever waits then hears of the others all the same.
func TestWaitForTheLeaving(t *testing.T) {
	defer func(d time.Duration) { lookEvery = d }(lookEvery)
	lookEvery = time.Hour
	s := open(t, t.TempDir())
	held := []*participant.Lease{acquire(t, s, "a", "slots3"), acquire(t, s, "a", "slots3"), acquire(t, s, "a", "slots3")}
	if err := os.Remove(s.members(encode("a"))[0].path + whoSuffix); err != nil {
		t.Fatal(err)
	}
	next := s.waitFor(t, "a", "slots3")
	release(t, held[2])
	held[2] = come(t, next)
	for _, g := range held {
		release(t, g)
	}
}

// mix takes leases of every kind again and again. What must not be held together
// would be seen in the directory of its first argument, where each holder has a
// file for as long as it holds.
func (h *helper) mix() {
	dir, tokens := h.args[0], h.args[1]
	rounds, _ := strconv.Atoi(h.args[2])
	log, _ := os.OpenFile(tokens, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	fmt.Println("mixing")
	for range rounds {
		kind := []string{"", "shared", "shared", "slots3"}[rand.IntN(4)]
		acquire := h.s.Acquire
		if rand.IntN(2) == 0 {
			acquire = h.s.TryAcquire // many at a time
		}
		g, err := acquire(context.Background(), asked(h.name, kind))
		if errors.Is(err, driver.ErrHeld) {
			continue
		}
		if err != nil {
			fmt.Println("error", err)
			return
		}
		mine := filepath.Join(dir, fmt.Sprintf("%s.%d.%d", kind, os.Getpid(), g.Token()))
		os.WriteFile(mine, nil, 0o600)
		fmt.Fprintln(log, g.Token(), kind == "")
		if wrong := together(dir, kind); wrong != "" {
			fmt.Println("overlap", wrong)
		}
		pause(rand.N(2))
		os.Remove(mine)
		if err := g.Release(context.Background()); err != nil {
			fmt.Println("error", err)
		}
	}
	fmt.Println("done")
}

// together returns the live holders if they must not be together with one of
// kind.
func together(dir, kind string) string {
	files, _ := os.ReadDir(dir)
	fit, others := 0, ""
	for _, f := range files {
		if other, _, _ := strings.Cut(f.Name(), "."); other == kind && kind == "shared" {
			continue
		} else if other == kind {
			fit++
		} else if !died(dir, f.Name()) {
			others += " " + f.Name()
		}
	}
	if limit := map[string]int{"": 1, "slots3": 3}[kind]; others == "" && fit > limit {
		// Of two that are alive neither may wait for the other for long.
		for end := time.Now().Add(5 * time.Second); fit > limit; pause(1) {
			live := slices.DeleteFunc(slices.Clone(files), func(f os.DirEntry) bool {
				_, err := os.Lstat(filepath.Join(dir, f.Name()))
				return err != nil || ended(f.Name())
			})
			if fit = len(live); fit > limit && time.Now().After(end) {
				return fmt.Sprint(fit, live)
			}
		}
	}
	return others
}

// died reports whether the process that has made a file is killed before it
// removes it. The end of a process takes a while, in which its locks are free.
func died(dir, name string) bool {
	for end := time.Now().Add(time.Minute); ; pause(1) {
		if ended(name) {
			return true
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil || time.Now().After(end) {
			return false
		}
	}
}

// ended reports whether the process that has made a file has ended.
func ended(name string) bool {
	pid, _ := strconv.Atoi(strings.Split(name, ".")[1])
	if pid == os.Getpid() {
		return false
	}
	state, _, err := procStat(pid)
	return err != nil || state == 'Z' || state == 'X'
}

func mixAll(t *testing.T, s client, dir, tokens string, processes, rounds int) {
	t.Helper()
	var all sync.WaitGroup
	for range processes {
		p := start(t, "mix", s.dir, "mix", dir, tokens, strconv.Itoa(rounds))
		all.Go(func() {
			for line := range p.lines {
				if line != "mixing" && line != "done" {
					t.Error(line)
				}
			}
		})
	}
	all.Wait()
}

// tokensGrow checks that no token comes twice, and that those of exclusive leases are between the ones before and after.
func tokensGrow(t *testing.T, path string, want int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]bool)
	var floor, last uint64 // the token of the last exclusive lease, and the greatest one
	for line := range strings.Lines(string(text)) {
		var token uint64
		var exclusive bool
		if _, err := fmt.Sscan(line, &token, &exclusive); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if seen[token] || token <= floor || exclusive && token <= last {
			t.Fatalf("token %d after %d; it is exclusive: %v, and was there: %v", token, last, exclusive, seen[token])
		}
		seen[token], last = true, max(last, token)
		if exclusive {
			floor = token
		}
	}
	if len(seen) < want {
		t.Errorf("%d tokens; want %d", len(seen), want)
	}
}

// TestJoin: one lease joins others at a time. A second one waits.
func TestJoin(t *testing.T) {
	t.Parallel()
	s := open(t, memoryDir(t))
	first := acquire(t, s, "deploy", "shared")
	leave, err := s.gate(t.Context(), encode("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	joined := make(chan *participant.Lease)
	go func() { joined <- acquire(t, s, "deploy", "shared") }()
	select {
	case g := <-joined:
		t.Error("one joins while another is in the gate")
		leave()
		release(t, g)
	case <-time.After(100 * time.Millisecond):
		leave()
		release(t, <-joined)
	}
	release(t, first)
	release(t, acquire(t, s, "deploy"))
}

// TestMixed has processes hold leases of every kind. The first ones are killed at random moments, while a cleaner
// deletes what may be deleted.
func TestMixed(t *testing.T) {
	t.Parallel()
	s := open(t, memoryDir(t))
	dir, tokens := t.TempDir(), filepath.Join(t.TempDir(), "tokens")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 15 / raceFactor {
				p := start(t, "mix", s.dir, "mix", dir, tokens, "1000000")
				p.line("mixing")
				pause(rand.IntN(60))
				p.kill()
				for line := range p.lines {
					t.Error(line)
				}
			}
		})
	}
	var cleaner sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	cleaner.Go(func() {
		for ctx.Err() == nil {
			pause(20)
			os.RemoveAll(s.path("mix", []string{fifoSuffix, heldSuffix, queueSuffix}[rand.IntN(3)]))
		}
	})
	all.Wait()
	cancel()
	cleaner.Wait()
	const processes, rounds = 8, 400 / raceFactor
	mixAll(t, s, dir, tokens, processes, rounds) // whatever they have left is in nobody's way
	tokensGrow(t, tokens, processes*rounds/4)
	eventually(t, "the lock is free", func() bool {
		g, err := s.TryAcquire(context.Background(), request("mix"))
		if err == nil {
			g.Release(context.Background())
		}
		return err == nil
	})
}

// TestKilledMembers: the kernel frees what a killed reader or holder of a slot
// had, and nothing else; waiters are told.
func TestKilledMembers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"shared", "slots2"} {
		s := open(t, t.TempDir())
		one, two := start(t, "hold", s.dir, "deploy", kind), start(t, "hold", s.dir, "deploy", kind)
		lease := one.line("held")[2]
		two.line("held")
		if info := look(t, s, "deploy"); len(info.Holders) != 2 || info.Holders[0].Orphan {
			t.Errorf("%s: Inspect = %+v; want two holders", kind, info)
		}
		next := line(t, s, "deploy", "hold", 1)[0]
		one.kill()
		info := look(t, s, "deploy")
		if len(info.Holders) != 1 || info.Holders[0].Lease == lease || len(info.Waiters) != 1 {
			t.Errorf("%s: Inspect = %+v; want the other holder and a waiter", kind, info)
		}
		mustBusy(t, s, "deploy")
		two.kill()
		next.line("held")
		// The waiter has seen them unless it tried just then, as it does now and then.
		dead := s.members(encode("deploy"))
		if names, err := os.ReadDir(s.path("deploy", heldSuffix)); len(dead)+len(names) != 0 || err != nil {
			t.Errorf("%s: of the dead there are left %v, %v (%v)", kind, dead, names, err)
		}
	}
}

// TestInherit: the lock lives as long as the child to which it was given, whether the process that took it was killed
// or has let go. A child that shares keeps writers out, not readers.
func TestInherit(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{""}, {"", "release"}, {"shared"}, {"slots2"}, {"slots2", "release"}} {
		s, kind := open(t, t.TempDir()), args[0]
		p := start(t, append([]string{"inherit", s.dir, "deploy"}, args...)...)
		lease := p.line("held")[2]
		if len(args) > 1 {
			p.line("<nil>")
		}
		for _, orphan := range []bool{false, true} {
			if orphan {
				p.kill()
			}
			if info := look(t, s, "deploy"); len(info.Holders) != 1 || info.Holders[0].Orphan != orphan {
				t.Errorf("%q: Inspect = %+v; want one holder, an orphan: %v", args, info, orphan)
			}
		}
		mustBusy(t, s, "deploy")
		if kind != "" {
			release(t, acquire(t, s, "deploy", kind))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := s.Break(ctx, "deploy", lease, &driver.Holder{}, ""); err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("%q: Break of an orphan = %v", args, err)
		}
		next := line(t, s, "deploy", "hold", 1)[0]
		p.in.Close() // ends the child
		next.line("held")
	}
}

// TestLeavesNothing: no file and no goroutine stays, and nothing is left in the directory but what has to be remembered.
func TestLeavesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	round := func() {
		for _, kind := range []string{"", "shared", "slots3"} {
			g := acquire(t, s, "deploy", kind)
			if kind != "" {
				mustBusy(t, s, "deploy")
				release(t, acquire(t, s, "deploy", kind))
			}
			release(t, g)
		}
	}
	round()
	before := fds(t)
	for range 20 {
		round()
	}
	eventually(t, "no goroutine is left", func() bool { return !strings.Contains(stacks(), ").listen(") })
	eventually(t, "no file is left open", func() bool { return fds(t) <= before })
	leases.Range(func(k, _ any) bool {
		if k.(key).store == s.store {
			t.Errorf("the lease %s is left", k.(key).lease)
		}
		return true
	})
	if names, err := os.ReadDir(s.path("deploy", heldSuffix)); len(names) != 0 || err != nil {
		t.Errorf("the files %v are left (%v)", names, err)
	}
}

// TestForeignReader: flock(1) keeps us out and we it, also when it shares.
func TestForeignReader(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	release(t, acquire(t, s, "deploy"))
	f, err := os.OpenFile(s.path("deploy", lockSuffix), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := flockShared(f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	mustBusy(t, s, "deploy")
	reader := acquire(t, s, "deploy", "shared")
	if _, err := s.TryAcquire(context.Background(), asked("deploy", "slots2")); err == nil {
		t.Error("a slot beside readers")
	}
	unflock(f)
	if ok, _ := flock(f); ok {
		t.Error("the flock was free although there is a reader")
	}
	release(t, reader)
}
