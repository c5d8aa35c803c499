// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/internal/nodewire"
)

// asked is one request, or one that starts anew with an empty node or lets time pass.
type asked struct {
	Closed  time.Duration      `json:",omitempty"` // an empty node that is closed for so long, negative: open
	Wait    time.Duration      `json:",omitempty"`
	Propose *nodewire.Proposal `json:",omitempty"`
	End     *nodewire.Ending   `json:",omitempty"`
	Want    *nodewire.Wish     `json:",omitempty"`
	Enqueue *nodewire.Place    `json:",omitempty"`
	Answer  string
}

// TestAnswers: the masters in memory, which TestScriptsDoWhatNodeSays compares with the
// scripts, answer what the file says, which the simulator's nodes answer as well. DRIVERTEST_UPDATE=1 writes it.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file []byte
		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 7))
			var m *master
			for i := range 250 {
				a := draw(r, seed, uint64(i))
				if i == 0 {
					a = asked{Closed: []time.Duration{-1, time.Minute}[seed%2]}
				}
				switch {
				case a.Closed != 0:
					m = masters(1)[0]
					m.maxTTL, m.closed = underWay, time.Now().Add(a.Closed)
				case a.Wait > 0:
					time.Sleep(a.Wait)
				case a.Propose != nil:
					m.mu.Lock()
					v := m.propose(*a.Propose)
					m.mu.Unlock()
					a.Answer = shown(v, time.Millisecond)
				case a.End != nil:
					had, next, err := m.End(t.Context(), *a.End)
					a.Answer = fmt.Sprint(had, " ", next, " ", err)
				case a.Enqueue != nil:
					s, err := m.Enqueue(t.Context(), *a.Enqueue)
					a.Answer = fmt.Sprint(seen(s, time.Millisecond), " ", err)
				default:
					s, err := m.Want(t.Context(), *a.Want)
					a.Answer = fmt.Sprint(seen(s, time.Millisecond), " ", err)
				}
				if m != nil {
					a.Answer += " / " + seen(m.stateOf(name), time.Millisecond)
				}
				line, err := json.Marshal(a)
				if err != nil {
					t.Fatal(err)
				}
				file = append(append(file, line...), '\n')
			}
		}
		const golden = "testdata/answers.jsonl"
		if os.Getenv("DRIVERTEST_UPDATE") != "" {
			if err := os.WriteFile(golden, file, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(file, want) {
			t.Error(golden, "is not what the masters answer: if this is meant, run the test with DRIVERTEST_UPDATE=1", err)
		}
	})
}

// draw draws the request that comes after i others. Times are not round, so that nothing ends in the instant of
// another request.
func draw(r *rand.Rand, seed, i uint64) asked {
	const leases = 3
	readers := int(seed % 3) // the first of them
	lease := func() string { return fmt.Sprint("lease", r.IntN(leases)) }
	long := func() time.Duration { return time.Duration(1+r.IntN(60)) * time.Second }
	switch n := r.IntN(20); {
	case n < 11:
		of := r.IntN(leases)
		p := &nodewire.Proposal{Mode: nodewire.Mode(r.IntN(2)), Name: name, Shared: of < readers, Lease: fmt.Sprint("lease", of),
			Queued: r.IntN(2) == 0, Token: 1 + i/20 + r.Uint64N(3), TTL: long(), Record: "{}"}
		return asked{Propose: p}
	case n < 13:
		w := &nodewire.Wish{Name: name, Who: lease()}
		if r.IntN(2) == 0 {
			w.For = long()
		}
		return asked{Want: w}
	case n < 14:
		of := r.IntN(leases)
		return asked{Enqueue: &nodewire.Place{Name: name, Shared: of < readers, Lease: fmt.Sprint("lease", of), Place: r.Uint64N(3), For: time.Duration(r.IntN(2)) * long(), Token: 1 + i/20 + r.Uint64N(3), TTL: long(), Record: "{}"}}
	case n < 16:
		e := &nodewire.Ending{Name: name, Lease: lease(), Bar: r.IntN(4) == 0, Held: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			e.Next = 1 + i/20 + r.Uint64N(3)
		}
		if r.IntN(6) == 0 {
			e.News = fmt.Sprint("news", r.IntN(3))
		}
		return asked{End: e}
	case n < 19:
		return asked{Wait: long()/4 + 500*time.Microsecond}
	}
	return asked{Wait: underWay + 700*time.Microsecond}
}

// shown is what has to be the same of two votes, with times rounded.
func shown(v nodewire.Vote, unit time.Duration) string {
	closed := v.Closed.Round(unit)
	if v.Has || v.Ended || len(v.Locks) > 0 { // it makes no difference
		closed = 0
	}
	state := seen(v.State, unit)
	if v.Stored {
		v.Writer = 0
	}
	if v.Has {
		state = fmt.Sprint(v.Floor, " ", v.Writer) // of what it has there is no more to say
	}
	return fmt.Sprint(v.Has, v.Stored, closed, v.Ended, v.News, state)
}

// seen is what has to be the same of two states, with times rounded.
func seen(s nodewire.State, unit time.Duration) string {
	var locks []string
	for _, l := range s.Locks {
		locks = append(locks, fmt.Sprint(l.Lease, " ", l.Shared, " ", l.Token, " ", l.Record, " ", l.Left.Round(unit), " ", !l.Granted.IsZero()))
	}
	slices.Sort(locks) // those that end in the same instant come in any order
	text := fmt.Sprint(locks, " ", s.Floor, " ", s.Writer, " ", s.Wishes, " ", s.Wished.Round(unit))
	if s.Ahead > 0 {
		text += fmt.Sprint(" behind ", s.Ahead)
	}
	return text
}
