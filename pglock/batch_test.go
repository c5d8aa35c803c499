// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/participant"
)

// notAtOnce is the code of a request that has to be sent by itself.
const notAtOnce = 0

func asks(name, lease string) *asking {
	return &asking{Request: &driver.Request{Name: name, Lease: lease, TTL: time.Minute}, record: "{}"}
}

// codes returns the answers.
func codes(all []storekit.Reply[reply]) (sum []int) {
	for _, r := range all {
		switch {
		case r.Alone:
			sum = append(sum, notAtOnce)
		case r.Err != nil:
			sum = append(sum, -100)
		default:
			sum = append(sum, integer(r.Answer.row[0]))
		}
	}
	return sum
}

// untilFree repeats a call until its first n requests have answers: the client confirms its leases when it
// begins to listen, one by one, and has their rows for a moment.
func untilFree(n int, call func() []storekit.Reply[reply]) (got []int) {
	eventually(patience, func() bool {
		got = codes(call())
		return !slices.Contains(got[:n], notAtOnce)
	})
	return got
}

// TestBatchTakesWhatIsFree: a call for many names waits for no row, and grants a name that it has twice once. TestShortcuts
// shows that it grants nothing that a request alone would not get.
func TestBatchTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	batch := rand.Text() + "/"
	all := []*asking{asks(batch+"again", rand.Text()), asks(batch+"again", rand.Text()), asks(batch+"locked", rand.Text()), asks(batch+"new", rand.Text())}
	for _, q := range all[1:3] {
		release(t, take(t, d, q.Name, time.Minute))
	}
	tx := blocker(t, batch+"locked")
	got := codes(d.wire.acquireAll(t.Context(), all))
	must(t, tx.Commit(t.Context()))
	if slices.Sort(got[:2]); !slices.Equal(got, []int{notAtOnce, 1, notAtOnce, notAtOnce}) {
		t.Errorf("the codes are %v; want one grant of the two leases of one name, and none of what is locked or new", got)
	}
}

// TestBatchGivesBack: of leases that are released in one call those end that nobody waits for
// or guards.
func TestBatchGivesBack(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	names := []string{"mine", "anothers", "wanted", "guarded"}
	batch := rand.Text() + "/"
	var all []ending
	var grants []*participant.Lease
	for _, name := range names {
		req := request(batch+name, time.Minute)
		g := ask(t, d, req)
		all, grants = append(all, ending{Ref: driver.Ref{Name: req.Name, Lease: req.Lease}}), append(grants, g)
	}
	all[1].Lease = "no such lease"
	sql(t, server(t), "UPDATE pawl.lock SET waiters = 1 WHERE name = '"+batch+"wanted'")
	tx := blocker(t, "")
	if _, err := tx.Exec(t.Context(), "SELECT pawl.guard($1, $2, $3)", all[3].Name, all[3].Lease, int64(grants[3].Token())); err != nil {
		t.Fatal(err)
	}
	got := untilFree(1, func() []storekit.Reply[reply] { return d.wire.releaseAll(t.Context(), all) })
	for i, want := range []int{1, notAtOnce, notAtOnce, notAtOnce} {
		if got[i] != want {
			t.Errorf("%s: %d, want %d", names[i], got[i], want)
		}
	}
	must(t, tx.Commit(t.Context()))
	sql(t, server(t), "UPDATE pawl.lock SET waiters = 0 WHERE name = '"+batch+"wanted'")
	for i, g := range grants[1:] {
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v", names[i+1], err)
		}
	}
}

// TestRenewTogether: of leases that are renewed in one call, each gets the answer that is its
// own. One whose row somebody has is renewed by itself, and keeps nobody waiting.
func TestRenewTogether(t *testing.T) {
	t.Parallel()
	d := open(t, server(t).URL("pawl"), wide)
	exclusive, reader, slot, long := request("exclusive", time.Minute), request("reader", time.Minute), request("slot", time.Minute), request("longer", 3*time.Minute)
	reader.Shared, slot.Slots = true, 2
	var all []renewing
	for _, req := range []*driver.Request{exclusive, reader, slot, long, request("too long", time.Minute), request("released", time.Minute), request("blocked", time.Minute)} {
		req.Name = "together/" + req.Name
		ask(t, d, req)
		all = append(all, renewing{driver.Ref{Name: req.Name, Lease: req.Lease, Shared: req.Shared, Slots: req.Slots}, 2 * time.Minute})
	}
	all[4].ttl = 2 * wide.MaxTTL
	if _, err := d.wire.End(t.Context(), all[5].Ref, driver.End{}); err != nil {
		t.Fatal(err)
	}
	tx := blocker(t, all[6].Name)
	if got, want := untilFree(5, func() []storekit.Reply[reply] { return d.wire.renewAll(t.Context(), all) }), []int{1, 1, 1, keptLonger, tooLong, notAtOnce, notAtOnce}; !slices.Equal(got, want) {
		t.Errorf("the codes are %v; want %v", got, want)
	}
	must(t, tx.Commit(t.Context()))
	var calls sync.WaitGroup
	for i, l := range all {
		calls.Go(func() {
			if r, err := d.wire.Renew(t.Context(), l.Ref, 2*time.Minute); errors.Is(err, driver.ErrLost) != (i == 5) || err != nil && i != 5 || r.Kept != (i == 3) {
				t.Errorf("%s: Renew = %+v, %v", l.Name, r, err)
			}
		})
	}
	calls.Wait()
}

// allTogether makes the requests of a client go together.
func allTogether(d *client) { d.wire.takes.Few = 0 }

// TestBatchRefused: what the server refuses because of one request fails for that one alone.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	p := servers.StartPostgres(t)
	sql(t, p, "CREATE DATABASE euc ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	d := open(t, strings.Replace(p.URL("pawl"), "/postgres?", "/euc?", 1), wide)
	allTogether(d)
	var all sync.WaitGroup
	for _, name := range []string{"one", "two", "three", "锁"} {
		all.Go(func() {
			_, err := d.TryAcquire(t.Context(), request(name, time.Minute))
			if (err != nil) != (name == "锁") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// TestBatchAnswer: each request has the row of its own lease. Where there is none, and where the
// server has rolled all of them back, it is sent by itself; a failure is that of all.
func TestBatchAnswer(t *testing.T) {
	all := []string{"a", "b", "c"}
	for _, c := range []struct {
		what string
		rows string // the leases of the rows
		err  error
		got  string // of each request: its row, a failure or nothing
	}{
		{"all", "bca", nil, "abc"},
		{"some", "c", nil, "  c"},
		{"none", "", nil, "   "},
		{"rolled back", "", &failure{refused: true}, "   "},
		{"by a server that is no primary", "", &failure{refused: true, drop: true}, "!!!"},
		{"lost", "", &driver.Failure{Err: driver.ErrUncertain, Maybe: true}, "!!!"},
	} {
		rows := [][][]byte{{[]byte("1"), nil}}
		for _, lease := range c.rows {
			rows = append(rows, [][]byte{[]byte("1"), []byte(string(lease))})
		}
		got := ""
		for _, r := range replies(all, func(lease string) string { return lease }, reply{rows: rows, sent: 7}, c.err) {
			switch {
			case r.Alone:
				got += " "
			case r.Err != nil:
				got += "!"
			default:
				got += string(r.Answer.row[1])
				if r.Answer.sent != 7 {
					t.Errorf("%s: the lease counts from %d, want from before it was sent", c.what, r.Answer.sent)
				}
			}
		}
		if got != c.got {
			t.Errorf("%s: %q, want %q", c.what, got, c.got)
		}
	}
}
