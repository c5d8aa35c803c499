// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// meter measures one store for "pawl bench".
type meter struct {
	store, other *stores.Store // two clients
	each         time.Duration
}

// run measures all parts and fills in out.
func (m *meter) run(ctx context.Context, out *benchJSON) error {
	kept := new(benchPart)
	for _, p := range []struct {
		into, trip *benchPart // into gets the figures, in units of trip
		f          func(context.Context) ([]time.Duration, error)
	}{
		{&out.RoundTrip, &out.RoundTrip, func(ctx context.Context) ([]time.Duration, error) { return m.roundTrips(ctx, 0) }},
		{&out.Rested, &out.RoundTrip, func(ctx context.Context) ([]time.Duration, error) { return m.roundTrips(ctx, rest) }},
		{&out.Pair, &out.RoundTrip, m.pairs},
		{kept, &out.RoundTrip, m.kept},
		{&out.Many, &out.RoundTrip, m.many},
		{&out.HandOff, &out.Rested, m.handOffs},
	} {
		began := time.Now()
		list, err := p.f(ctx)
		if err != nil {
			return err
		}
		*p.into = part(list, time.Since(began))
		if p.trip.P50 > 0 && m.store.Guarantees().CrossHost {
			p.into.RoundTrips = float64(p.into.P50) / float64(p.trip.P50)
		}
	}
	if kept.Count > 0 {
		out.Kept = kept
	}
	return nil
}

func part(list []time.Duration, all time.Duration) benchPart {
	if len(list) == 0 {
		return benchPart{}
	}
	slices.Sort(list)
	n := len(list)
	return benchPart{Count: n, PerSecond: float64(n) / all.Seconds(), P50: list[(n-1)/2], P99: list[(n-1)*99/100]}
}

// again calls f until the time m.each is over, with a rest before each call, and returns how long each call
// took.
func (m *meter) again(ctx context.Context, rest time.Duration, f func() error) (list []time.Duration, err error) {
	for end := time.Now().Add(m.each); len(list) == 0 || time.Now().Before(end); {
		time.Sleep(rest)
		began := time.Now()
		// Some stores look at the context only when they have to wait.
		if err := errors.Join(ctx.Err(), f()); err != nil {
			return nil, err
		}
		list = append(list, time.Since(began))
	}
	return list, nil
}

// roundTrips measures Inspect of a name that nobody holds: one request, which changes
// nothing.
func (m *meter) roundTrips(ctx context.Context, rest time.Duration) ([]time.Duration, error) {
	return m.again(ctx, rest, func() error {
		_, err := m.store.Inspect(ctx, benchPrefix+"1")
		return err
	})
}

// rest is how long each client holds the lock before it hands it off, so that the other
// client is waiting by then. After a rest everything takes longer, because processors
// and caches have done other work.
const rest = 10 * time.Millisecond

func (m *meter) pairs(ctx context.Context) ([]time.Duration, error) { return m.pair(ctx, "1") }

// kept measures pairs with KeepIdle: only the first sends a request. Without KeepIdle it returns none.
func (m *meter) kept(ctx context.Context) ([]time.Duration, error) {
	list, err := m.pair(ctx, "kept", pawl.KeepIdle(time.Minute))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return list, err
}

func (m *meter) pair(ctx context.Context, name string, options ...pawl.Option) ([]time.Duration, error) {
	options = append(options, pawl.Why("pawl bench"))
	return m.again(ctx, 0, func() error {
		lease, err := m.store.Acquire(ctx, benchPrefix+name, options...)
		if err != nil {
			return err
		}
		return lease.Release(context.Background())
	})
}

func (m *meter) many(ctx context.Context) ([]time.Duration, error) {
	lists := make([][]time.Duration, benchMany)
	g, ctx := errgroup.WithContext(ctx)
	for i := range lists {
		g.Go(func() (err error) {
			lists[i], err = m.pair(ctx, strconv.Itoa(i+1))
			return err
		})
	}
	err := g.Wait()
	return slices.Concat(lists...), err
}

// handOffs makes two clients take turns, and measures each hand-off.
func (m *meter) handOffs(ctx context.Context) ([]time.Duration, error) {
	h := &handOffs{end: time.Now().Add(m.each)}
	g, ctx := errgroup.WithContext(ctx)
	for i, s := range []*stores.Store{m.store, m.other} {
		g.Go(func() error { return h.take(ctx, s, i) })
	}
	err := g.Wait()
	return h.list, err
}

type handOffs struct {
	end time.Time
	// The holder of the lock changes these. The mutex avoids a data race if the store is
	// broken and grants the lock to both.
	mu       sync.Mutex
	list     []time.Duration
	last     int // the client that released the lock last
	released time.Time
}

func (h *handOffs) take(ctx context.Context, s *stores.Store, me int) error {
	for {
		lease, err := s.Acquire(ctx, benchPrefix+"hand-off", pawl.Why("pawl bench"))
		if err != nil {
			return err
		}
		h.mu.Lock()
		if !h.released.IsZero() && h.last != me {
			h.list = append(h.list, time.Since(h.released))
		}
		h.mu.Unlock()
		time.Sleep(rest)
		h.mu.Lock()
		h.last, h.released = me, time.Now()
		over := len(h.list) > 0 && h.released.After(h.end)
		h.mu.Unlock()
		if err := lease.Release(context.Background()); err != nil || over {
			return err // the other client gets the lock next, and returns too
		}
	}
}
