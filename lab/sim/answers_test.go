// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestNodesAnswerAsServersDo: nodes give the answers that package redlock's tests have
// written down, from masters that it compares with the scripts in a server.
func TestNodesAnswerAsServersDo(t *testing.T) {
	answers, err := os.ReadFile("../../redislock/redlock/testdata/answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var n *node
		lines := bufio.NewScanner(bytes.NewReader(answers))
		asked := 0
		for ; lines.Scan(); asked++ {
			var a struct {
				Closed, Wait time.Duration
				Propose      *nodewire.Proposal
				End          *nodewire.Ending
				Want         *nodewire.Wish
				Enqueue      *nodewire.Place
				Answer       string
			}
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			name, got := "deploy", ""
			if n != nil {
				n.mu.Lock()
			}
			switch {
			case a.Closed != 0:
				// It remembers what has ended for as long as a server does.
				n = newWorld(Plan{Nodes: 1, Clients: []Script{nil}, TTL: 5 * time.Minute}).nodes[0]
				n.w.link(1, 1).told = func(nodewire.Message) {}
				n.mu.Lock()
				n.closed = a.Closed
			case a.Wait > 0:
				time.Sleep(a.Wait)
			case a.Propose != nil:
				got = shown(n.propose(1, *a.Propose))
			case a.End != nil:
				had, next := n.end(1, *a.End)
				got = fmt.Sprint(had, " ", next, " ", nil)
			case a.Enqueue != nil:
				got = fmt.Sprint(seen(n.enqueue(1, *a.Enqueue)), " ", nil)
			default:
				got = fmt.Sprint(seen(n.want(*a.Want)), " ", nil)
			}
			got += " / " + seen(n.look(n.at(name)))
			n.mu.Unlock()
			if got != a.Answer {
				t.Fatalf("line %d: %s\nthe node's answer is %s", asked+1, lines.Bytes(), got)
			}
		}
		if asked == 0 || lines.Err() != nil {
			t.Errorf("%d requests: %v", asked, lines.Err())
		}
	})
}

// TestHealBesideReaders: a reader is healed beside those that came after it.
func TestHealBesideReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newWorld(Plan{Nodes: 1, Clients: []Script{nil}, TTL: time.Minute}).nodes[0]
		n.w.link(1, 1).told = func(nodewire.Message) {}
		n.mu.Lock()
		defer n.mu.Unlock()
		p := nodewire.Proposal{Name: "deploy", Lease: "first", Token: 5, Shared: true, TTL: time.Minute}
		n.propose(1, p)
		n.end(1, nodewire.Ending{Name: "deploy", Lease: "first", Held: true}) // as if its lock had expired
		n.propose(1, nodewire.Proposal{Name: "deploy", Lease: "reader", Token: 7, Shared: true, TTL: time.Minute})
		p.Mode = nodewire.Heal
		if v := n.propose(1, p); !v.Has {
			t.Error("the first reader is not healed")
		}
	})
}

// shown is what is written down of a vote, as in package redlock's tests.
func shown(v nodewire.Vote) string {
	closed := v.Closed.Round(time.Millisecond)
	if v.Has || v.Ended || len(v.Locks) > 0 {
		closed = 0
	}
	state := seen(v.State)
	if v.Stored {
		v.Writer = 0
	}
	if v.Has {
		state = fmt.Sprint(v.Floor, " ", v.Writer)
	}
	return fmt.Sprint(v.Has, v.Stored, closed, v.Ended, v.News, state)
}

func seen(s nodewire.State) string {
	var locks []string
	for _, l := range s.Locks {
		locks = append(locks, fmt.Sprint(l.Lease, " ", l.Shared, " ", l.Token, " ", l.Record, " ", l.Left.Round(time.Millisecond), " ", !l.Granted.IsZero()))
	}
	slices.Sort(locks)
	text := fmt.Sprint(locks, " ", s.Floor, " ", s.Writer, " ", s.Wishes, " ", s.Wished.Round(time.Millisecond))
	if s.Ahead > 0 {
		text += fmt.Sprint(" behind ", s.Ahead)
	}
	return text
}
