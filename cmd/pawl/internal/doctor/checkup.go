// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// trips measures round trips, and reports whether the store answers.
func (d *doctor) trips(ctx context.Context) bool {
	const count = 10
	var list []time.Duration
	for range count {
		began := time.Now()
		if _, err := d.store.Inspect(ctx, "pawl-doctor"); err != nil {
			d.failed("reachable", "the store does not answer", exit.OfStore(err, d.out.Store))
			return false
		}
		list = append(list, time.Since(began))
	}
	slices.Sort(list)
	median, slowest := list[(count-1)/2], list[count-1]
	d.trip = median
	d.out.RoundTrip = &tripJSON{millis(median), millis(slowest)}
	d.tell(tripFinding(median, slowest, d.store.Guarantees().Expiry))
	return true
}

func millis(t time.Duration) float64 {
	return float64(t.Round(time.Microsecond)) / float64(time.Millisecond)
}

// tripFinding says what the round trips mean for leases. A renewal is due after a third of the TTL,
// so its answer has the other two thirds.
func tripFinding(median, slowest time.Duration, expiry bool) driver.Finding {
	f := driver.Finding{Check: "round trip", Text: fmt.Sprintf("a round trip takes %v, the slowest took %v", display.Rounded(median), display.Rounded(slowest))}
	if !expiry {
		return f
	}
	const answers = 20 // round trips that have to fit into two thirds of a TTL
	shortest := max((slowest*answers*3/2 + time.Second - 1).Truncate(time.Second), time.Second)
	f.Text += fmt.Sprintf("; a --ttl of %v or more leaves room for %d such answers", shortest, answers)
	if shortest > pawl.DefaultTTL {
		f.Level, f.Do = driver.Warning, fmt.Sprintf("use a --ttl of %v, or see what makes the network or the server slow", shortest)
	}
	return f
}

// grants tells whether the store grants leases, and what MaxTTL it has.
func (d *doctor) grants(ctx context.Context) {
	state, err := d.store.State(ctx)
	switch {
	case err != nil:
		d.failed("quarantine", "the store does not say whether it grants leases", exit.As(err))
		return
	case state == nil:
		d.probe(ctx, 0)
		return
	}
	d.out.State = state
	longest, _ := time.ParseDuration(state.MaxTTL) // 0 until somebody sets it
	refused := d.store.URL.Refused(longest)
	if refused {
		d.tell(driver.Finding{Check: "max-ttl", Level: driver.Problem,
			Text: fmt.Sprintf("%s, but this URL lacks ?max_ttl=%v, so programs that use it are refused", stores.Limit(state), longest),
			Do:   "add it to the URL of every program, or lower the maximum with pawl max-ttl"})
	} else {
		d.tell(limitFinding(state, longest, d.trip))
	}
	shut := state.Shut()
	if shut == "" {
		d.tell(driver.Finding{Check: "quarantine", Text: "the store is not in quarantine"})
		switch {
		case refused: // the store would refuse a probe too, for the reason given above
		case state.MaxTTL == "": // a probe would set it for all later programs
			d.tell(driver.Finding{Check: "grant", Text: "nobody has used the store yet, so no grant was tried"})
		default:
			d.probe(ctx, longest)
		}
		return
	}
	d.tell(driver.Finding{Check: "quarantine", Level: driver.Problem,
		Text: "the store " + shut,
		Do:   "wait; or, if nobody can hold a lock, see: pawl bless --help"})
}

// limitFinding says what MaxTTL the store has, and whether it is long enough for round trips of the
// length trip. A renewal should get its answer within a sixth of the TTL.
func limitFinding(state *report.State, longest, trip time.Duration) driver.Finding {
	f := driver.Finding{Check: "max-ttl", Text: stores.Limit(state)}
	if least := (6*trip + time.Second - 1).Truncate(time.Second); longest > 0 && 6*trip > longest {
		f.Level = driver.Warning
		f.Text += fmt.Sprintf(", which is less than six round trips of %v: leases may be lost", trip.Round(time.Millisecond))
		f.Do = fmt.Sprintf("raise it: pawl max-ttl %v", least)
	}
	return f
}

// probe acquires and releases a lock. Its TTL is the default, or longest if that is shorter. It always uses the
// same name, because a file store keeps a file for each name.
func (d *doctor) probe(ctx context.Context, longest time.Duration) {
	if !d.probes {
		return
	}
	ttl := pawl.DefaultTTL
	if longest > 0 {
		ttl = min(ttl, longest)
	}
	lease, err := d.store.TryAcquire(ctx, "pawl-doctor", pawl.TTL(ttl), pawl.Why("pawl doctor looks whether the store grants leases"))
	if err == nil {
		err = lease.Release(ctx)
	}
	switch {
	case err == nil, errors.Is(err, pawl.ErrHeld): // another doctor holds it
		d.tell(driver.Finding{Check: "grant", Text: "the store grants leases: one was taken and released"})
	case errors.Is(err, pawl.ErrDenied), errors.Is(err, fs.ErrPermission):
		d.tell(driver.Finding{Check: "grant", Text: "this user may not take a lock, so none was tried"})
	default:
		d.failed("grant", "the store grants nothing", exit.OfStore(err, d.out.Store))
	}
}

// mostLocks limits the findings about locks. If more locks are stuck, the store is the problem.
const mostLocks = 20

// locks looks for locks and queues that are stuck.
func (d *doctor) locks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stores.ListTime)
	defer cancel()
	infos, err := d.store.List(ctx, "")
	if err != nil {
		d.failed("locks", "not all locks can be listed", exit.OfStore(err, d.out.Store))
	}
	for _, info := range infos {
		if len(info.Holders) > 0 {
			d.out.Held++
		}
		d.out.Waiting += len(info.Waiters)
	}
	d.tell(driver.Finding{Check: "locks", Text: fmt.Sprintf("locks held: %d, waiting: %d", d.out.Held, d.out.Waiting)})
	d.deadlocks(ctx, infos)
	defer d.changing(ctx, infos) // last, as it takes some seconds
	told := 0
	for _, info := range d.settled(ctx, infos) {
		found := d.stuck(info)
		told += len(found)
		if told > mostLocks {
			d.tell(driver.Finding{Check: "locks", Level: driver.Warning, Text: "there are more such locks", Do: "see: pawl ls --sort age" + d.store.Flag})
			return
		}
		for _, f := range found {
			d.tellOf(info.Name, f)
		}
	}
}

// settled looks again at the free locks, because a hand-off may have been under way. It returns infos,
// without holders and waiters for a lock that has changed since.
func (d *doctor) settled(ctx context.Context, infos []*pawl.Info) []*pawl.Info {
	between := func(info *pawl.Info) bool { return len(info.Holders) == 0 }
	if !slices.ContainsFunc(infos, between) {
		return infos
	}
	time.Sleep(2 * time.Second) // longer than a hand-off may take
	for i, info := range infos {
		if !between(info) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, d.Connect)
		again, err := d.store.Inspect(ctx, info.Name)
		cancel()
		if err == nil && (len(again.Holders) > 0 || !sameQueue(info, again)) {
			infos[i] = &pawl.Info{Name: info.Name} // the lock is not stuck
		}
	}
	return infos
}

// sameQueue reports whether before and after have the same first waiter.
func sameQueue(before, after *pawl.Info) bool {
	if len(before.Waiters) == 0 || len(after.Waiters) == 0 {
		return false
	}
	was, is := before.Waiters[0], after.Waiters[0]
	return was.Lease == is.Lease && was.Holder == is.Holder && was.Since.Equal(is.Since)
}

// stuck returns the findings about a lock.
func (d *doctor) stuck(info *pawl.Info) (found []driver.Finding) {
	warn := func(check, text, do string) {
		found = append(found, driver.Finding{Check: check, Level: driver.Warning, Text: fmt.Sprintf("%q ", info.Name) + text, Do: do})
	}
	for _, h := range info.Holders {
		show := "see: " + d.store.Show(info.Name)
		end := fmt.Sprintf("%s; end it with: pawl break %s%s --lease %s --why TEXT", show, display.Quote(info.Name), d.store.Flag, h.Lease)
		switch {
		case h.Transaction != nil:
			warn("transaction", fmt.Sprintf("is kept by an open transaction, although the lease of %v that guarded it has ended: %v", h.Holder, h.Transaction), h.Transaction.End()+"; "+show)
		case h.Orphan:
			warn("orphan", fmt.Sprintf("is held by processes that %v left running", h.Holder), end)
		case h.Command != waiting.AcquireCommand && waiting.Gone(h.Holder): // a lease of pawl acquire outlives its process
			warn("holder", fmt.Sprintf("is held by %v, a process that does not exist here", h.Holder), "the store ends it when its TTL is over; "+show)
		case !h.Acquired.IsZero() && time.Since(h.Acquired) >= d.long:
			warn("held long", fmt.Sprintf("has been held for %s by %v", driver.Ago(h.Acquired), h.Holder), end)
		}
	}
	if len(info.Holders) == 0 && len(info.Waiters) > 0 && d.out.State.Shut() == "" {
		warn("queue", fmt.Sprintf("is free, but waiters remain: %d", len(info.Waiters)), "see who they are, and whether they live: "+d.store.Show(info.Name))
	}
	dead := 0
	for _, w := range info.Waiters {
		if waiting.Gone(w.Holder) {
			dead++
		}
	}
	if dead > 0 {
		warn("queue", fmt.Sprintf("has waiters whose processes do not exist here: %d", dead), "look again when a TTL is over: "+d.store.Show(info.Name))
	}
	return found
}

// examineRedlock returns the findings about the nodes of a redlock store that could not be opened, because too
// few nodes answer.
func examineRedlock(ctx context.Context, s *stores.URL) []driver.Finding {
	found, err := redlock.Examine(ctx, s.Secret(), &redlock.Options{Options: *stores.RedisOptions(ctx)})
	if err != nil {
		return nil // the error of opening the store says the same
	}
	return found
}
