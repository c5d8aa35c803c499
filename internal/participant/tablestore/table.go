// SPDX-License-Identifier: Apache-2.0

// Package tablestore is the smallest driver.Store: compare-and-set on a table in memory, without a queue and
// without events. In a store of your own, update is a transaction or a script of your server.
package tablestore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Table stands for a server: it has one row for each name, and changes one at a time.
type Table struct {
	mu   sync.Mutex
	rows map[string]*row
}

type row struct {
	holder driver.Held // of the last lease; its Lease is empty once that was released
	token  uint64      // grows with every grant, and stays when the lease ends
	ends   driver.Instant
	broken map[string]*driver.LostError // leases that Break has ended
}

// update runs f on the row of name, alone, with the server's time.
func (t *Table) update(ctx context.Context, name string, f func(r *row, now driver.Instant) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return &driver.Failure{Err: err} // certainly nothing was recorded
	}
	if t.rows == nil {
		t.rows = make(map[string]*row)
	}
	if t.rows[name] == nil {
		t.rows[name] = new(row)
	}
	return f(t.rows[name], driver.Now())
}

// Participant returns a new participant.
func (t *Table) Participant() driver.Store { return &store{table: t} }

// store is the wire to a Table. It has no queue and no events: Basic stands in for what it lacks.
type store struct {
	driver.Basic
	table *Table
}

// Caps promises nothing that the table cannot keep: it ends with its process.
func (s *store) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{Fencing: true, Expiry: true}, Shows: true, LongerTTL: true}
}

// Ask takes the row if nobody has it, or if the lease has it already: the request is repeated.
func (s *store) Ask(ctx context.Context, req *driver.Request) (ans driver.Answer, err error) {
	ans.Since = driver.Now() // before the request is sent
	err = s.table.update(ctx, req.Name, func(r *row, now driver.Instant) error {
		held := r.holder.Lease != "" && now < r.ends
		if held && r.holder.Lease != req.Lease {
			ans.Holders, ans.Free = []driver.Held{r.holder}, r.ends.Sub(now)
			return nil
		}
		if !held {
			r.token, r.ends = r.token+1, 0 // nothing of the last lease but its token
			r.holder = driver.Held{Holder: *req.Holder, Lease: req.Lease, Token: driver.Token(r.token), Why: req.Why, Acquired: time.Now()}
		}
		r.ends = max(r.ends, now.Add(req.TTL))
		ans.Granted, ans.Token = true, r.token
		return nil
	})
	return ans, err
}

// Renew never shortens the lease, and never revives one that has ended.
func (s *store) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (a driver.Renewal, err error) {
	a.Since = driver.Now()
	err = s.table.update(ctx, l.Name, func(r *row, now driver.Instant) error {
		if r.holder.Lease != l.Lease || now >= r.ends {
			return cmp.Or(r.broken[l.Lease], &driver.LostError{Reason: driver.Gone})
		}
		a.Kept = now.Add(ttl) < r.ends
		r.ends = max(r.ends, now.Add(ttl))
		return nil
	})
	return a, err
}

// End compares before it deletes. It works although ctx has ended, so that nothing stays.
func (s *store) End(ctx context.Context, l driver.Ref, _ driver.End) (found bool, err error) {
	err = s.table.update(context.WithoutCancel(ctx), l.Name, func(r *row, now driver.Instant) error {
		if found = r.holder.Lease == l.Lease && now < r.ends; found {
			r.holder.Lease = ""
		}
		return nil
	})
	return found, err
}

// info describes a row.
func (r *row) info(name string, now driver.Instant) *driver.Info {
	info := &driver.Info{Name: name, Token: driver.Token(r.token)}
	if r.holder.Lease != "" && now < r.ends {
		info.Holders = append(info.Holders, r.holder)
	}
	return info
}

// Inspect describes a name.
func (s *store) Inspect(ctx context.Context, name string) (info *driver.Info, err error) {
	err = s.table.update(ctx, name, func(r *row, now driver.Instant) error { info = r.info(name, now); return nil })
	return info, err
}

// List describes the names that have a holder.
func (s *store) List(_ context.Context, prefix string) (all []*driver.Info, err error) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.table.rows)) {
		if info := s.table.rows[name].info(name, driver.Now()); strings.HasPrefix(name, prefix) && len(info.Holders) > 0 {
			all = append(all, info)
		}
	}
	return all, nil
}

// Break deletes the lease of another participant, which learns of it when it renews.
func (s *store) Break(ctx context.Context, name, lease string, by *driver.Holder, why string) error {
	return s.table.update(ctx, name, func(r *row, now driver.Instant) error {
		switch info := r.info(name, now); {
		case len(info.Holders) == 0:
			return driver.ErrReleased
		case r.holder.Lease != lease:
			return &driver.HeldError{Info: info}
		}
		r.holder.Lease, r.broken = "", map[string]*driver.LostError{lease: {Reason: driver.Broken, By: by, Why: why}} // of the last one
		return nil
	})
}
