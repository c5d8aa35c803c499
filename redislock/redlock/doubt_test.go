// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
	"github.com/pawl-go/pawl/internal/nodewire"
)

// TestRenewalIsTrustedFromItsSending: answers that come late do not make the trust longer.
func TestRenewalIsTrustedFromItsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		g := try(t, start(t, all, &Options{NodeTimeout: time.Second}))
		setAll(all, only("propose", fault{after: 400 * time.Millisecond}))
		sent := driver.Now()
		since, err := g.Renew(t.Context(), 10*time.Second)
		if err != nil || since != sent || g.until != trust(sent, 10*time.Second) {
			t.Errorf("Renew = %v after its sending, %v, trusted for %v; want 0 and %v", since.Sub(sent), err,
				g.until.Sub(sent), trust(sent, 10*time.Second).Sub(sent))
		}
	})
}

// TestClockIsReadForEachRound: a client that was paused between the rounds of an attempt
// proposes what the clock says then, which is greater than all that was forgotten meanwhile.
func TestClockIsReadForEachRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		for _, m := range all {
			m.Name(name).Store(uint64(time.Now().UnixMicro())+1, "somebody", false)
		}
		d := start(t, all, &Options{NodeTimeout: 5 * time.Second})
		setAll(all, only("propose", fault{after: time.Second}))
		paused := uint64(time.Now().Add(time.Second).UnixMicro())
		if g := try(t, d); d.rounds.Load() != 2 || g.token < paused {
			t.Errorf("token %d after %d rounds; want %d or more, the clock's when the second began", g.token, d.rounds.Load(), paused)
		}
	})
}

// TestDoubtOutlivesLaterAnswers: the answer to a renewal does not say that the proposal before it, which
// was not answered, cannot come any more: its lease is remembered when it ends.
func TestDoubtOutlivesLaterAnswers(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		all[2].set(only("propose", fault{before: 7 * time.Second}))
		g := try(t, d)
		time.Sleep(d.last(request().TTL)) // it was given up
		all[2].set(nil)
		renew(t, g, 10*time.Second)
		synctest.Wait()
		release(t, g)
		synctest.Wait()
		free(t, all, "")
		time.Sleep(3 * time.Second) // now it has come
		free(t, all, "")
	})
}

// TestBrokenBeforeAskedAgain: a lease that one node says was broken may still be at the others: the client ends it.
func TestBrokenBeforeAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		d, operator := start(t, all, nil), start(t, all, nil)
		req := request()
		ans, err := d.Ask(t.Context(), req)
		if err != nil || !ans.Granted {
			t.Fatalf("Ask = %+v, %v; want a grant", ans, err)
		}
		setAll(all[1:], only("end", fault{lost: true}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = operator.Break(ctx, name, req.Lease, &driver.Holder{Who: "operator"}, "it hangs")
		for _, m := range all[1:] { // the node that knows of the break answers first
			m.set(only("propose", fault{after: time.Millisecond}))
		}
		req.Handle = ans.Handle
		if _, err = d.Ask(t.Context(), req); !driver.FailureOf(err).Ended || !driver.FailureOf(err).Maybe {
			t.Errorf("Ask = %v; want that the lease was ended, and may be there", err)
		}
	})
}

// TestRefusedAskedAgain: nodes have granted a lease, and refuse the client when it asks again: its MaxTTL, or its set of nodes,
// is another one meanwhile. They have the lease until it is ended.
func TestRefusedAskedAgain(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		req := request()
		ans, err := d.Ask(t.Context(), req)
		if err != nil || !ans.Granted {
			t.Fatalf("Ask = %+v, %v; want a grant", ans, err)
		}
		setAll(all, only("propose", fault{no: unavailable(storekit.Disagreef("other nodes"))}))
		req.Handle = ans.Handle
		_, err = d.Ask(t.Context(), req)
		if f := driver.FailureOf(err); !f.Maybe || !f.Lasting || !errors.Is(err, driver.ErrDisagree) {
			t.Errorf("Ask = %+v; want ErrDisagree, and that the lease may be there", f)
		}
		if _, err := d.End(t.Context(), driver.Ref{Name: name, Lease: req.Lease, Handle: ans.Handle}, driver.End{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		free(t, all, "")
	})
}

// TestReleaseBesideABreak: a break has come to all nodes but the one that answers first. The lease was lost.
func TestReleaseBesideABreak(t *testing.T) {
	withLease(t, 3, func(t *testing.T, all []*master, g *grant) {
		for i, m := range all[:2] {
			if _, _, err := m.End(t.Context(), nodewire.Ending{Name: name, Lease: g.lease, Held: true, News: "{}"}); err != nil {
				t.Fatal(err)
			}
			m.set(only("end", fault{after: time.Duration(1+i) * time.Millisecond}))
		}
		if err := g.Release(t.Context()); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Release = %v; want ErrLost", err)
		}
	})
}

// TestVotesOfAnotherTurn: nodes have voted for a waiter, which was away until that was over and another one has had the
// name. They have voted for it again by then, and the messages are lost: it does not take the later votes for the
// earlier ones, with the smaller token.
func TestVotesOfAnotherTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(3)
		d, other := start(t, all, nil), start(t, all, nil)
		ask := func(d *store, req *driver.Request) driver.Answer {
			t.Helper()
			ans, err := d.Ask(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return ans
		}
		end := func(req *driver.Request, ans driver.Answer) {
			t.Helper()
			if _, err := other.End(t.Context(), driver.Ref{Name: req.Name, Lease: req.Lease, Handle: ans.Handle}, driver.End{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		first, waits, second := request(), request(), request()
		held := ask(other, first)
		waits.Queue = true
		for range 2 { // the second time it is in the queues
			waits.Handle = ask(d, waits).Handle
		}
		end(first, held)
		if !waits.Handle.(*lease).has.turn.voted() {
			t.Fatal("the nodes have not voted for the waiter")
		}
		for _, m := range all {
			m.mu.Lock()
			m.tells = nil
			m.mu.Unlock()
		}
		time.Sleep(claimFor + time.Second)
		if _, err := waits.Handle.(*lease).enqueue(); err != nil { // as if it had been sent before, and took long
			t.Fatal(err)
		}
		synctest.Wait()
		held = ask(other, second)
		if !held.Granted {
			t.Fatalf("Ask = %+v; want a grant, as the claim of the waiter is over", held)
		}
		end(second, held)
		if got := ask(d, waits); !got.Granted || got.Token <= held.Token {
			t.Errorf("the waiter has token %d, granted: %v; want one above %d", got.Token, got.Granted, held.Token)
		}
	})
}
