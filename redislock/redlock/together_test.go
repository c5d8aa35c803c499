// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// scriptCalls returns how many scripts the server has run.
func (s *redis) scriptCalls() int {
	_, stats, _ := strings.Cut(s.do("info", "commandstats"), "cmdstat_evalsha:calls=")
	n := 0
	fmt.Sscan(strings.Replace(stats, ",", " ", 1), &n)
	return n
}

// atOnce calls f(0) … f(n-1) in goroutines that are ready to run at the same moment.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// TestRequestsInOneCall: requests that goroutines make at the same time become one
// call, and are answered as if each were alone: two want the same name, one name is
// another program's, somebody listens to one and has a wish, one lease has ended, and
// each is ended twice.
func TestRequestsInOneCall(t *testing.T) {
	t.Parallel()
	const names, least, most = 8, 40, 10_000
	node, server := single(t, patient())
	server.do("lpush", "pawl:redlock:{foreign}", "theirs")
	woken := make(chan struct{}, 2*most)
	node.Tell(func(m nodewire.Message) {
		if m.Lease == "reader" {
			woken <- struct{}{}
		}
	})
	listensAt(t, node)
	before, requests, began := server.scriptCalls(), 0, time.Now()
	for round := 0; ; round++ {
		// On a busy machine few come together.
		if calls := server.scriptCalls() - before; round >= least && calls <= requests-5*least {
			break
		} else if round == most || time.Since(began) > 2*patience {
			t.Fatalf("%d calls for %d requests; want that some are one call", calls, requests)
		}
		requests += 6*names + 6
		listens := nodewire.Place{Name: "name0", Lease: "reader", Shared: true, For: time.Minute, TTL: time.Minute, Record: "{}"}
		if _, err := node.Enqueue(t.Context(), listens); err != nil {
			t.Fatal(err)
		}
		lease := func(i int) string { return fmt.Sprintf("lease%dx%d", round, i) }
		named := func(i int) string {
			if i < 2*names {
				return fmt.Sprint("name", i%names)
			}
			return "foreign"
		}
		barred := nodewire.Ending{Name: named(1), Lease: lease(1), Bar: true}
		if _, _, err := node.End(t.Context(), barred); err != nil {
			t.Fatal(err)
		}
		var votes [2*names + 1]nodewire.Vote
		atOnce(len(votes), func(i int) {
			i = (i + names) % len(votes) // that of another program's name is amid the others
			v, err := node.Propose(t.Context(), nodewire.Proposal{Name: named(i), Lease: lease(i), Token: uint64(round + 1), TTL: time.Minute})
			if foreign := i == 2*names; foreign != errors.Is(err, driver.ErrUncertain) || !foreign && err != nil {
				t.Errorf("Propose of %s = %v", named(i), err)
			}
			votes[i] = v
		})
		for i := range names {
			has, lost, winner := votes[i], votes[i+names], lease(i)
			if lost.Has {
				has, lost, winner = lost, has, lease(i+names)
			}
			if !has.Has || !has.Stored || lost.Has || i == 1 && (!lost.Ended || winner == lease(1)) ||
				i != 1 && (len(lost.Locks) != 1 || lost.Locks[0].Lease != winner) {
				t.Fatalf("%s: %+v and %+v; want that %s has it, and the other knows", named(i), has, lost, winner)
			}
		}
		server.do("zadd", "pawl:redlock:{"+named(0)+"}"+wishesSuffix, "9e15", "writer")
		var had [4*names + 1]bool
		atOnce(len(had), func(i int) {
			i = (i + names) % len(had)
			e := nodewire.Ending{Name: named(i / 2), Lease: lease(i / 2), Held: true} // each twice
			h, _, err := node.End(t.Context(), e)
			if foreign := i == 4*names; foreign != errors.Is(err, driver.ErrUncertain) || !foreign && err != nil {
				t.Errorf("End of %s = %v", e.Name, err)
			}
			had[i] = h
		})
		for i := range 2 * names {
			if had[2*i] && had[2*i+1] || (had[2*i] || had[2*i+1]) != votes[i].Has {
				t.Fatalf("%s has ended %s: %t, and %t; it had it: %t", lease(i), named(i), had[2*i], had[2*i+1], votes[i].Has)
			}
		}
		if s, err := node.Read(t.Context(), []string{named(0)}); err != nil || s[0].Wishes > 0 || s[0].Waiters != 1 {
			t.Fatalf("Read = %+v, %v; want no wish, and one who listens", s, err)
		}
		select {
		case <-woken:
		case <-time.After(patience):
			t.Fatal("who listens was not woken")
		}
	}
}

// TestGraceAfterAQuorum: nodes that fail are no quorum. A client that has one answer waits for the nodes that may give
// the others; with a quorum it waits only for the grace.
func TestGraceAfterAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &store{quorum: 2, members: make([]*member, 4)}
		for failed, want := range map[int]string{2: "[0 1 2 3]", 0: "[0 1] given up [2 3]"} {
			replies := make(chan reply[int], 4)
			for i := range 2 {
				r := reply[int]{node: i}
				if i < failed {
					r.err = errBusy
				}
				replies <- r
			}
			time.AfterFunc(time.Minute, func() { replies <- reply[int]{node: 2}; replies <- reply[int]{node: 3} })
			var heard, silent []int
			err := gather(t.Context(), d, nil, replies, func([]bool) time.Duration { return time.Second }, func(r reply[int]) bool {
				if r.err == errSilent {
					silent = append(silent, r.node)
				} else {
					heard = append(heard, r.node)
				}
				return false
			})
			got := fmt.Sprint(heard)
			if silent != nil {
				got += " given up " + fmt.Sprint(silent)
			}
			if got != want || err != nil {
				t.Errorf("%d nodes fail at once: %s, %v; want %s", failed, got, err, want)
			}
			time.Sleep(time.Hour)
		}
	})
}
