// SPDX-License-Identifier: Apache-2.0

// Package tablestore is the smallest driver.Store: a read and a compare-and-set for each change, without a queue
// and without events. In a store of your own, get and set are the requests to your server.
package tablestore

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Table stands for a server: it has one row for each name.
type Table struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	version int         // grows with every set
	holder  driver.Held // of the last lease; its Lease is empty once that was released
	token   uint64      // grows with every grant, and stays when the lease ends
	ends    driver.Instant
}

// request takes a moment, as the network does, and locks t unless ctx has ended.
func (t *Table) request(ctx context.Context) error {
	time.Sleep(time.Millisecond)
	if err := ctx.Err(); err != nil {
		return &driver.Failure{Err: err} // certainly nothing was recorded
	}
	t.mu.Lock()
	return nil
}

// get returns the row of name, and the server's time.
func (t *Table) get(ctx context.Context, name string) (r row, now driver.Instant, err error) {
	if err := t.request(ctx); err != nil {
		return row{}, 0, err
	}
	defer t.mu.Unlock()
	return t.rows[name], driver.Now(), nil
}

// set writes the row of name, unless another set was first since get returned it.
func (t *Table) set(ctx context.Context, name string, r row) (done bool, err error) {
	if err := t.request(ctx); err != nil {
		return false, err
	}
	defer t.mu.Unlock()
	if t.rows[name].version != r.version {
		return false, nil
	}
	if t.rows == nil {
		t.rows = make(map[string]row)
	}
	r.version++
	t.rows[name] = r
	return true, nil
}

// update changes the row of name by f, from get on again as long as others are faster.
func (t *Table) update(ctx context.Context, name string, f func(r *row, now driver.Instant) (write bool, err error)) error {
	for {
		r, now, err := t.get(ctx, name)
		if err != nil {
			return err
		}
		if write, err := f(&r, now); err != nil || !write {
			return err
		}
		if done, err := t.set(ctx, name, r); done || err != nil {
			return err
		}
	}
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
	return driver.Caps{Guarantees: driver.Guarantees{Fencing: true, Expiry: true}, LongerTTL: true}
}

// Ask takes the row if nobody has it, or if the lease has it already: the request is repeated.
func (s *store) Ask(ctx context.Context, req *driver.Request) (ans driver.Answer, err error) {
	since := driver.Now() // before the first request
	err = s.table.update(ctx, req.Name, func(r *row, now driver.Instant) (write bool, err error) {
		held := r.has(now)
		if held && r.holder.Lease != req.Lease {
			ans = driver.Answer{Holders: []driver.Held{r.holder}, Free: r.ends.Sub(now)}
			return false, nil
		}
		if !held {
			r.token, r.ends = r.token+1, 0 // nothing of the last lease but its token
			r.holder = driver.Held{Holder: *req.Holder, Lease: req.Lease, Token: driver.Token(r.token), Why: req.Why, Acquired: time.Now()}
		}
		r.ends = max(r.ends, now.Add(req.TTL)) // a renewal may have been first
		ans = driver.Answer{Granted: true, Token: r.token, Since: since}
		return true, nil
	})
	if err != nil {
		return driver.Answer{}, err
	}
	return ans, nil
}

// Renew never shortens the lease, and never revives one that has ended.
func (s *store) Renew(ctx context.Context, l driver.Ref, ttl time.Duration) (a driver.Renewal, err error) {
	a.Since = driver.Now()
	err = s.table.update(ctx, l.Name, func(r *row, now driver.Instant) (write bool, err error) {
		if r.holder.Lease != l.Lease || !r.has(now) {
			return false, &driver.LostError{Reason: driver.Gone}
		}
		a.Kept = now.Add(ttl) < r.ends
		r.ends = max(r.ends, now.Add(ttl))
		return !a.Kept, nil
	})
	return a, err
}

// End compares before it deletes. In doubt it always writes:
// the set of an Ask that arrives later then finds another version.
func (s *store) End(ctx context.Context, l driver.Ref, how driver.End) (found bool, err error) {
	err = s.table.update(ctx, l.Name, func(r *row, now driver.Instant) (write bool, err error) {
		if found = r.holder.Lease == l.Lease && r.has(now); found {
			r.holder.Lease = ""
		}
		return found || how.Doubt, nil
	})
	return found, err
}

// has reports whether a lease has the row.
func (r *row) has(now driver.Instant) bool { return r.holder.Lease != "" && now < r.ends }
