// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestBusyProcessStarvesNobody: a process in which 64 goroutines want a name all the
// time leaves it to a process with one goroutine as often as it gets it from the server
// itself, or nearly. Tokens show the order of the holders; no check depends on the
// clock. The test is not parallel, as it would disturb others.
func TestBusyProcessStarvesNobody(t *testing.T) {
	const turns = 100_000
	r := blessedServer(t)
	children := startChildren(t, 2, r.url())
	lone, busy := children[0], children[1]
	lone.say("compete 1 1")
	lone.hear("enough")
	busy.say("compete 64 %d", turns)
	busy.hear("enough")
	mine, theirs := recorded(t, lone), recorded(t, busy)
	slices.SortFunc(theirs, byToken)

	// Only the time in which both wanted it counts.
	from, to := theirs[0].token, theirs[turns-1].token
	mine = slices.DeleteFunc(mine, func(l raceLease) bool { return l.token < from || l.token > to })
	theirs = theirs[:turns]
	asked := 0
	for _, l := range theirs {
		if l.asked {
			asked++
		}
	}
	share := float64(len(mine)) / float64(len(mine)+asked)
	t.Logf("of %d grants by the server the lone process has %d, %.2f; the other has %d leases; the lone one has waited for %v at most",
		len(mine)+asked, len(mine), share, turns, longestWait(mine))
	if asked*4001 < turns {
		t.Errorf("the busy process has asked the server for %d of %d leases; a grant has 4,001 tokens", asked, turns)
	}
	if share < 0.25 {
		t.Errorf("the lone process has %.2f of the grants by the server; want 0.25 at least", share)
	}
}

// race is what the goroutines of a process have had of a name.
type race struct {
	driver.Store
	done sync.WaitGroup

	mu     sync.Mutex
	asked  map[uint64]bool // tokens of leases that the store has granted on request
	leases []raceLease
	wrong  error
}

type raceLease struct {
	token  uint64
	asked  bool
	waited time.Duration
}

func byToken(a, b raceLease) int {
	if a.token < b.token {
		return -1
	}
	return 1
}

// Ask notes the token of a lease that it grants.
func (r *race) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := r.Store.Ask(ctx, req)
	if err == nil && ans.Granted {
		r.note(ans.Token)
	}
	return ans, err
}

// Listen notes the token of a lease that a message hands over.
func (r *race) Listen(f func(driver.Event)) {
	r.Store.Listen(func(e driver.Event) {
		if e.Kind == driver.Granted {
			r.note(e.Grant.Token)
		}
		f(e)
	})
}

func (r *race) note(token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[token] = true
}

func (p *childProcess) compete(count, turns string) {
	d, err := p.open() // beside that of p.c
	if err != nil {
		fmt.Println(err)
		return
	}
	p.race = &race{Store: d, asked: make(map[uint64]bool)}
	c, err := pawl.New(p.race, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var n, enough int
	fmt.Sscan(count, &n)
	fmt.Sscan(turns, &enough)
	for range n {
		p.race.done.Go(func() {
			for p.ctx.Err() == nil {
				p.race.turn(p.ctx, c, enough)
			}
		})
	}
}

func (r *race) turn(ctx context.Context, c *pawl.Client, enough int) {
	begun := time.Now()
	l, err := c.Acquire(ctx, "deploy", pawl.TTL(time.Minute)) // no pause is as long
	waited := time.Since(begun)
	if err == nil {
		err = l.Release(context.Background())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			r.wrong = err
		}
		return
	}
	token := uint64(l.Token())
	r.leases = append(r.leases, raceLease{token, r.asked[token], waited})
	if len(r.leases) == enough {
		fmt.Println("enough")
	}
}

// record writes what the goroutines have had, when they have ended, and says what
// went wrong.
func (r *race) record(file string) string {
	r.done.Wait()
	var b strings.Builder
	for _, l := range r.leases {
		fmt.Fprintln(&b, l.token, l.asked, l.waited.Nanoseconds())
	}
	if r.wrong == nil {
		r.wrong = os.WriteFile(file, []byte(b.String()), 0o600)
	}
	return strings.ReplaceAll(fmt.Sprint(r.wrong), " ", "_")
}

// recorded ends what c does and returns what it has had.
func recorded(t *testing.T, c *child) (leases []raceLease) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "leases")
	c.say("record %s", file)
	var wrong string
	if c.hear("recorded %s", &wrong); wrong != "<nil>" {
		t.Fatal(wrong)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var l raceLease
		if _, err := fmt.Sscan(line, &l.token, &l.asked, &l.waited); err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	return leases
}

func longestWait(leases []raceLease) (longest time.Duration) {
	for _, l := range leases {
		longest = max(longest, l.waited)
	}
	return longest
}
