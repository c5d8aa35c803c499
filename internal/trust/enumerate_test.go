// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/trust"
)

// world is one grant, the leases that it goes through, the requests that renew it, and a
// store that is as unkind as its contract lets it be: it begins a TTL when a request is
// sent, its clock is as fast as Drift allows, and it carries a request out only if it says so.
type world struct {
	now    driver.Instant
	began  driver.Instant
	gives  driver.Instant // when the store gives the name away
	leases [3]trust.Lease
	terms  [3]trust.Terms
	n      int // leases so far
	got    [3]driver.Instant

	alive driver.Instant // when the holder was last known to be

	turn time.Duration // for which the grant may go from lease to lease

	queued bool       // for a worker that renews
	asked  [2]request // in the order of their sending
	kept   bool       // a child process has the files
	handed int        // over
	given  int        // back to the store
	rests  bool       // it was released before its MinHold was over
	over   bool       // and that is over by now

	idles  bool           // nobody uses the grant, which is kept
	until  driver.Instant // then it is given back
	idled  int            // how often it was kept
	wanted bool           // by others
}

type request struct {
	open    bool
	by      int
	sent    driver.Instant
	ttl     time.Duration
	timeout time.Duration
}

const (
	ttl    = 12 * time.Second
	tokens = 1
)

func (w *world) present() *trust.Lease { return &w.leases[w.n-1] }

func (w *world) do(a trust.Action) error {
	w.queued = w.queued || a.Renew
	if a.Over && w.idles {
		if w.over || w.now < w.until {
			return errors.New("what is kept is given back too early, or twice")
		}
		w.over = true
	} else if a.Over {
		if !w.rests || w.over || w.now < w.began.Add(w.terms[0].MinHold) {
			return errors.New("it is given back before its MinHold is over, or twice")
		}
		w.over = true
	}
	if a.Lost && w.present().State() != trust.Lost {
		return fmt.Errorf("a loss is told of a lease that is not lost")
	}
	return nil
}

// tick lets time pass, and the timer fire if it is set for then.
func (w *world) tick(d time.Duration) error {
	to := w.now.Add(d)
	for due := w.present().Due(); due <= to; due = w.present().Due() {
		w.now = max(w.now, due)
		if err := w.do(w.present().Wake(w.now)); err != nil {
			return err
		}
		if next := w.present().Due(); next <= w.now {
			return fmt.Errorf("woken at %v, it wants to be woken at once again", w.now.Sub(w.began))
		}
	}
	w.now = to
	return nil
}

// sleep lets time pass in which no timer fires, as in a suspend of the machine.
func (w *world) sleep(d time.Duration) error {
	w.now = w.now.Add(d)
	return nil
}

// send begins a request, if r says that there is one.
func (w *world) send(by int, r trust.Request, ok bool) error {
	if !ok {
		return nil
	}
	to := &w.asked[0]
	if to.open {
		to = &w.asked[1]
	}
	// What the store carries out last must not be for less than the lease trusts.
	if to.open || w.asked[0].open && w.asked[0].ttl != r.TTL && (w.asked[0].by == by || w.asked[0].ttl < r.TTL) {
		return errors.New("a request is sent beside others that it must not be beside")
	}
	if left := w.leases[by].Deadline().Sub(w.now); r.Timeout > max(left, 0) {
		return fmt.Errorf("a request may take %v, and the lease ends in %v", r.Timeout, left)
	}
	*to = request{true, by, w.now, r.TTL, r.Timeout}
	return nil
}

func (w *world) renew() error {
	if !w.queued {
		return errSame
	}
	w.queued = false
	r, ok := w.present().Renew(w.now)
	if ok && w.terms[w.n-1].NoRenew {
		return errors.New("a lease with NoRenew is renewed")
	}
	return w.send(w.n-1, r, ok)
}

func (w *world) extend(i int, ttl time.Duration) error {
	if i >= w.n || w.idles && i == w.n-1 { // nobody has it
		return errSame
	}
	w.leases[i].Look(w.now) // as Lease.Extend does
	r, err := w.leases[i].Extend(ttl, w.now)
	return w.send(i, r, err == nil)
}

var (
	errNet  = errors.New("no answer")
	errLeft = fmt.Errorf("the caller has given up: %w", context.Canceled)
	errSame = errors.New("nothing has changed") // there are no sequences behind it
)

// carriedOut ends a request of which the store has no way to tell that it has carried it
// out.
func (w *world) carriedOut(err error) error {
	if r := w.asked[0]; r.open {
		w.gives = max(w.gives, r.sent.Add(r.ttl-driver.Drift(r.ttl)))
	}
	return w.answer(0, err)
}

// answer ends request i. The store has carried it out if err is nil.
func (w *world) answer(i int, err error) error {
	r := w.asked[i]
	if !r.open {
		return errSame
	}
	if w.asked[i] = (request{}); i == 0 {
		w.asked[0], w.asked[1] = w.asked[1], request{}
	}
	if err == nil {
		w.gives = max(w.gives, r.sent.Add(r.ttl-driver.Drift(r.ttl)))
	}
	before, state := w.present().Deadline(), w.present().State()
	own := r.by == w.n-1
	ended := w.present().Ended()
	a := w.present().Answer(trust.Answer{Own: own, Sent: r.sent, TTL: r.ttl, Since: r.sent, Err: err, GaveUp: err == errLeft}, w.now, 0.5)
	switch {
	case !own && w.terms[w.n-1].NoRenew && w.present().Deadline() != before && ended == nil:
		return errors.New("an answer that it has not asked for moves the deadline of a lease with NoRenew")
	case !own && a.Renewed && w.present().Deadline() > max(before, r.sent.Add(w.terms[w.n-1].TTL-driver.Drift(w.terms[w.n-1].TTL))):
		return errors.New("an heir trusts its grant for longer than it has asked for")
	case err == errLeft && !own && (a.Suspect != nil || w.present().State() != state):
		return errors.New("it is suspect because another lease's caller has given up")
	case (err == errNet || err == errLeft) && a.Renewed, ended != nil && a != trust.Action{}:
		return fmt.Errorf("it leads to %+v", a)
	case err == nil && own && ended == nil && (w.present().State() != trust.Held || w.present().Deadline() < before && r.ttl >= w.terms[w.n-1].TTL):
		return errors.New("it is confirmed, and not held for longer")
	case errors.Is(err, driver.ErrLost) && w.present().State() != trust.Lost && ended == nil:
		return errors.New("the store has ended it, and it is not lost")
	}
	return w.do(a)
}

// release begins to give back a lease, and hands it over to a waiter if there is one
// with these terms and it may have it.
func (w *world) release(i int, waiter *trust.Terms) error {
	if i >= w.n {
		return errSame
	}
	l := &w.leases[i]
	if w.rests && !w.over && i == w.n-1 && l.Ended() == nil {
		return errSame // nobody has it
	}
	held := l.Holds()
	switch l.Release() {
	case trust.Fewer:
		if held < 2 || l.Holds() != held-1 {
			return fmt.Errorf("%d holds, of %d, are left", l.Holds(), held)
		}
		return nil
	case trust.Again:
		if held > 0 {
			return errors.New("a release waits for one that has not begun")
		}
		return nil
	}
	if w.handed+w.idled+w.given > i {
		return errors.New("a grant is given back twice")
	}
	early := w.now < w.began.Add(w.terms[i].MinHold) && w.now < l.Deadline() && l.Ended() == nil
	if rest, ok := l.Rest(w.now, 0.5); ok != early {
		return fmt.Errorf("it rests: %v, and has to: %v", ok, early)
	} else if ok {
		return w.rest(i, rest)
	}
	if waiter != nil && w.n < len(w.leases) {
		before := *l
		if heir, ok := l.HandOver(*waiter, w.now, 0.5); ok {
			return w.inherit(before, heir, *waiter)
		}
		if *l != before {
			return errors.New("it was not handed over, but has changed")
		}
	}
	if waiter == nil {
		before := *l
		if idle, ok := l.Idle(w.now); ok {
			return w.idle(before, idle)
		}
		if *l != before {
			return errors.New("it was not kept, but has changed")
		}
	}
	l.Look(w.now)
	l.End()
	w.given++
	return nil
}

// idle is the release of a lease whose grant is kept.
func (w *world) idle(before, idle trust.Lease) error {
	t := w.terms[w.n-1]
	half := before.Window().Sub(w.now) - before.TTL()/2
	switch {
	case t.Idle == 0:
		return errors.New("a grant is kept that is not to be kept")
	case w.idles:
		return errors.New("what is kept is kept again")
	case w.wanted:
		return errors.New("a grant is kept that others want")
	case w.kept || w.handed >= tokens || before.State() != trust.Held:
		return errors.New("a grant is kept that has no heirs")
	case half <= 0:
		return errors.New("a grant is kept with half of its TTL or less")
	case idle.Holds() != 1 || idle.Ended() != nil || w.present().State() != trust.Released:
		return errors.New("it is kept and not released, or its grant is nobody's")
	}
	w.until = min(w.now.Add(t.Idle), w.now.Add(half), w.began.Add(w.turn))
	t.NoRenew, t.MaxHold, t.Progress = true, 0, 0
	w.leases[w.n], w.terms[w.n] = idle, t
	w.n++
	w.idles, w.idled = true, w.idled+1
	return nil
}

// reuse is a call of this client for what is kept.
func (w *world) reuse(t trust.Terms) error {
	if !w.idles || w.n == len(w.leases) {
		return errSame
	}
	l := w.present()
	before := *l
	heir, ok := l.HandOver(t, w.now, 0.5)
	free := before.Holds() == 1 && before.Ended() == nil && !w.wanted && w.now < w.until
	switch {
	case ok && before.Holds() == 0:
		return errors.New("what is being given back is used again")
	case ok && (w.wanted || w.now >= w.until):
		return errors.New("what is kept is used again although others want it, or too late")
	case ok && l.Release() != trust.Again:
		return errors.New("a late release of what was kept gives back what is used")
	case ok:
		return w.inherit(before, heir, t)
	case *l != before:
		return errors.New("it was not used again, but has changed")
	case free && t == w.terms[0] && t.TTL == before.TTL():
		return errors.New("what is kept is not used again")
	}
	return nil
}

// letGo begins to give back what is kept. The store does not know yet.
func (w *world) letGo() error {
	if !w.idles || w.present().Release() != trust.Last {
		return errSame
	}
	return nil
}

// want is news from the store, true or not.
func (w *world) want() error {
	before := *w.present()
	if unused := w.present().Wanted(w.now); unused != w.idles {
		return fmt.Errorf("others want it: %v", unused)
	}
	if w.wanted = true; *w.present() == before {
		return nil
	}
	w.turn = min(w.turn, w.now.Sub(w.began)+time.Millisecond)
	return nil
}

// rest is the release of a lease whose MinHold is not over.
func (w *world) rest(i int, rest trust.Lease) error {
	if w.leases[i].State() != trust.Released || rest.Ended() != nil || rest.Holds() != 1 {
		return errors.New("it rests and is not released, or its grant is nobody's")
	}
	t := w.terms[i]
	t.NoRenew, t.MaxHold, t.Progress = false, 0, 0
	w.leases[w.n], w.terms[w.n] = rest, t
	w.n++
	w.rests = true
	return nil
}

func (w *world) inherit(before, heir trust.Lease, t trust.Terms) error {
	need := min(t.TTL/2, 500*time.Millisecond)
	if t.NoRenew || w.idles {
		need = t.TTL / 2
	}
	switch {
	case before.Ended() != nil || w.now >= before.Deadline() || before.State() != trust.Held:
		return errors.New("a lease is handed over that may have ended")
	case w.handed >= tokens:
		return errors.New("more leases than tokens")
	case w.now >= w.began.Add(w.turn):
		return errors.New("handed over after the turn")
	case w.rests:
		return errors.New("a grant goes on that is kept for MinHold")
	case t.MinHold > 0:
		return errors.New("an heir with a MinHold has less than a TTL")
	case w.kept:
		return errors.New("a lease is handed over whose files a child has")
	case t.Why != w.terms[w.n-1].Why:
		return errors.New("handed over under another purpose")
	case heir.Deadline().Sub(w.now) < need && t.MaxHold == 0 && t.Progress == 0:
		return fmt.Errorf("handed over with %v", heir.Deadline().Sub(w.now))
	case heir.Holds() != 1 || heir.State() != trust.Held || heir.Ended() != nil:
		return errors.New("the heir does not hold it")
	}
	w.handed, w.alive, w.idles = w.handed+1, w.now, false
	w.leases[w.n], w.terms[w.n], w.got[w.n] = heir, t, w.now
	w.n++
	return nil
}

// report is a sign of life of the work.
func (w *world) report() error {
	l := w.present()
	l.Look(w.now)
	if l.Report(w.now); l.Ended() == nil {
		w.alive = w.now
	}
	return nil
}

func (w *world) lose() error {
	w.present().Lose(&driver.LostError{Reason: driver.Broken})
	return nil
}

// keep is a child process that gets the files of lease i.
func (w *world) keep(i int) error {
	if i >= w.n || w.idles && i == w.n-1 {
		return errSame
	}
	if w.leases[i].Bind() {
		if w.leases[i].Ended() != nil || i < w.n-1 {
			return errors.New("a child gets the files of a lease that has ended")
		}
		w.kept = true
	}
	return nil
}

// lower is a Downgrade of lease i.
func (w *world) lower(i int) error {
	if i >= w.n || w.idles || w.rests {
		return errSame
	}
	l := &w.leases[i]
	l.Look(w.now)
	before := *l
	t, ok := l.Lower(w.now)
	if !ok {
		if *l != before {
			return errors.New("it was not lowered, but has changed")
		}
		return nil
	}
	w.given++
	switch {
	case before.Ended() != nil || before.Holds() != 1 || l.State() != trust.Released || l.Holds() != 0:
		return errors.New("a lease is lowered that has ended or that others count on, or it has not ended")
	case t.Idle != 0 || t.MinHold > 0 && w.now.Add(t.MinHold) != w.began.Add(w.terms[i].MinHold):
		return errors.New("the lease that shares is kept for a time of its own")
	case t.MaxHold > 0 && w.now.Add(t.MaxHold) > w.got[i].Add(w.terms[i].MaxHold):
		return errors.New("the lease that shares has a MaxHold of its own")
	}
	return nil
}

func (w *world) hold() error {
	l := w.present()
	if w.idles {
		return errSame
	}
	holds := l.Holds()
	if !l.Hold() {
		return nil
	}
	if l.Ended() != nil || holds == 0 {
		return errors.New("a hold of a lease that has ended or was given back")
	}
	return nil
}

// check looks for what must never be.
func (w *world) check(before *world) error {
	for i := range w.n {
		l := &w.leases[i]
		trusted := *l
		trusted.Look(w.now) // as whoever uses the lease does
		switch {
		case trusted.Ended() == nil && w.now >= w.gives:
			return fmt.Errorf("lease %d is trusted, and the store has given the name away", i)
		case trusted.Ended() == nil && i < w.n-1:
			return fmt.Errorf("lease %d is trusted, and its grant is that of lease %d", i, w.n-1)
		case trusted.Ended() == nil && w.terms[i].MaxHold > 0 && w.now >= w.got[i].Add(w.terms[i].MaxHold):
			return fmt.Errorf("lease %d is trusted after its MaxHold", i)
		case trusted.Ended() == nil && w.terms[i].Progress > 0 && w.now >= w.alive.Add(w.terms[i].Progress):
			return fmt.Errorf("lease %d is trusted, and its holder is stuck", i)
		}
		if i >= before.n {
			continue
		}
		if was := &before.leases[i]; was.Ended() != nil && (l.State() != was.State() || l.Ended() != was.Ended()) {
			return fmt.Errorf("lease %d was %v, %v, and is %v, %v", i, was.State(), was.Ended(), l.State(), l.Ended())
		}
	}
	l := w.present()
	if w.rests && !w.over && l.Ended() == nil && l.Due() > w.began.Add(w.terms[0].MinHold) {
		return errors.New("nobody gives it back when its MinHold is over")
	}
	if w.idles && !w.over && l.Ended() == nil && l.Due() > w.until {
		return errors.New("nobody gives back what is kept")
	}
	if l.Ended() != nil || w.terms[w.n-1].NoRenew {
		return nil
	}
	switch {
	case l.Due() > l.Deadline():
		return errors.New("nobody looks at its deadline")
	case !w.queued && !w.asked[0].open && w.terms[w.n-1].MaxHold == 0 && w.terms[w.n-1].Progress == 0 && w.now.Add(10*time.Millisecond) < l.Deadline() && w.sleeps(l):
		return errors.New("nobody renews it")
	}
	return nil
}

// sleeps reports whether l is not woken again before its deadline but to become suspect.
func (w *world) sleeps(l *trust.Lease) bool {
	awake := *l
	for due := awake.Due(); due < awake.Deadline(); due = awake.Due() {
		if awake.Wake(due).Renew {
			return false
		}
	}
	return true
}

type event struct {
	name string
	do   func(*world) error
}

var (
	alike   = trust.Terms{TTL: ttl}
	short   = trust.Terms{TTL: ttl / 2}
	fixed   = trust.Terms{TTL: ttl, NoRenew: true}
	other   = trust.Terms{TTL: ttl, Why: "another purpose"}
	longer  = trust.Terms{TTL: 2 * ttl}
	capped  = trust.Terms{TTL: ttl, MaxHold: time.Second}
	tested  = trust.Terms{TTL: ttl, Progress: ttl / 2}
	keeping = trust.Terms{TTL: ttl, Idle: ttl / 3}
	lasting = trust.Terms{TTL: ttl, MinHold: ttl / 2, MaxHold: ttl, Progress: ttl, NoRenew: true}
)

var events = []event{
	{"a millisecond", func(w *world) error { return w.tick(time.Millisecond) }},
	{"a third", func(w *world) error { return w.tick(ttl / 3) }},
	{"to the deadline", func(w *world) error { return w.tick(max(0, w.present().Deadline().Sub(w.now)-1)) }}, // not quite
	{"suspended", func(w *world) error { return w.sleep(ttl) }},
	{"renew", (*world).renew},
	{"extend", func(w *world) error { return w.extend(w.n-1, 2*ttl) }},
	{"shorten", func(w *world) error { return w.extend(0, ttl/4) }},
	{"confirmed", func(w *world) error { return w.answer(0, nil) }},
	{"the second confirmed", func(w *world) error { return w.answer(1, nil) }},
	{"no answer", func(w *world) error { return w.answer(0, errNet) }},
	{"no answer, but carried out", func(w *world) error { return w.carriedOut(errNet) }},
	{"given up", func(w *world) error { return w.carriedOut(errLeft) }},
	{"gone", func(w *world) error { return w.answer(0, driver.ErrLost) }},
	{"refused", func(w *world) error { return w.answer(0, errors.ErrUnsupported) }},
	{"broken", (*world).lose},
	{"release", func(w *world) error { return w.release(w.n-1, nil) }},
	{"release the first", func(w *world) error { return w.release(0, nil) }},
	{"hand over", func(w *world) error { return w.release(w.n-1, &alike) }},
	{"hand over, shorter", func(w *world) error { return w.release(w.n-1, &short) }},
	{"hand over, fixed", func(w *world) error { return w.release(w.n-1, &fixed) }},
	{"hand over, other", func(w *world) error { return w.release(w.n-1, &other) }},
	{"hand over, longer", func(w *world) error { return w.release(w.n-1, &longer) }},
	{"hand over, capped", func(w *world) error { return w.release(w.n-1, &capped) }},
	{"hand over, tested", func(w *world) error { return w.release(w.n-1, &tested) }},
	{"hand over, lasting", func(w *world) error { return w.release(w.n-1, &lasting) }},
	{"reuse", func(w *world) error { return w.reuse(w.terms[0]) }},
	{"reuse, shorter", func(w *world) error { return w.reuse(short) }},
	{"reuse, fixed", func(w *world) error { return w.reuse(fixed) }},
	{"reuse, other", func(w *world) error { return w.reuse(other) }},
	{"reuse, longer", func(w *world) error { return w.reuse(longer) }},
	{"reuse, lasting", func(w *world) error { return w.reuse(lasting) }},
	{"wanted", (*world).want},
	{"let go", (*world).letGo},
	{"progress", (*world).report},
	{"files", func(w *world) error { return w.keep(w.n - 1) }},
	{"files of the first", func(w *world) error { return w.keep(0) }},
	{"downgrade", func(w *world) error { return w.lower(w.n - 1) }},
	{"downgrade of the first", func(w *world) error { return w.lower(0) }},
	{"again", (*world).hold},
}

// walk does every event in w, and every event after that, n deep. It returns how many
// sequences there were.
func (w world) walk(n int) (sequences int, err error) {
	if n == 0 {
		return 1, nil
	}
	for _, e := range events {
		next := w
		err := e.do(&next)
		if err == errSame {
			continue
		}
		if err == nil {
			err = next.check(&w)
		}
		if err == nil && next.leases == w.leases && next.now == w.now && next.asked == w.asked && next.queued == w.queued && next.kept == w.kept && next.wanted == w.wanted {
			continue // it is as before
		}
		var below int
		if err == nil {
			below, err = next.walk(n - 1)
		}
		if err != nil {
			return 0, fmt.Errorf("%s, %w", e.name, err)
		}
		sequences += below
	}
	return sequences, nil
}

// begin is a grant of which so much of the TTL is over, with others waiting or not.
func begin(t trust.Terms, ago time.Duration, others bool) world {
	w := world{began: driver.Instant(time.Hour), n: 1, turn: 4 * time.Millisecond, wanted: others || t.Idle == 0}
	if others {
		w.turn = time.Millisecond
	} else if t.Idle > 0 {
		w.turn = ttl
	}
	w.now, w.alive, w.got[0] = w.began, w.began, w.began
	since := w.began.Add(-ago)
	w.gives = since.Add(t.TTL - driver.Drift(t.TTL))
	w.terms[0] = t
	w.leases[0] = trust.Begin(t, trust.Grant{Expires: true, Since: since, Tokens: tokens, Others: others, Recalls: t.Idle > 0}, w.now, 0.5)
	return w
}

// Every sequence of events of a lease, its heir and the requests that renew their grant
// keeps the promises.
func TestEverySequenceOfEvents(t *testing.T) {
	began, all := time.Now(), 0
	for _, start := range []struct {
		name   string
		terms  trust.Terms
		ago    time.Duration
		others bool
		deep   int
	}{
		{"fresh", alike, 0, false, 4},
		{"with others waiting", alike, 0, true, 4},
		{"fixed", fixed, 0, false, 4},
		{"capped", capped, 0, false, 4},
		{"tested", tested, 0, false, 4},
		{"lasting", lasting, 0, false, 4},
		{"kept", keeping, 0, false, 4},
		{"kept, with others waiting", keeping, 0, true, 3},
		{"kept, with little left", keeping, ttl / 3, false, 4},
		{"with little left", alike, ttl - time.Second, false, 4},
		{"with very little left", alike, ttl - 400*time.Millisecond, false, 3},
	} {
		n, err := begin(start.terms, start.ago, start.others).walk(start.deep)
		if err != nil {
			t.Fatalf("a grant, %s: %v", start.name, strings.ReplaceAll(err.Error(), "\n", " "))
		}
		all += n
	}
	t.Logf("%d sequences in %v", all, time.Since(began).Round(time.Millisecond))
	if all < 10_000 {
		t.Errorf("%d sequences: too few to show anything", all)
	}
}
