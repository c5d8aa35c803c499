// SPDX-License-Identifier: Apache-2.0

// Package ministore is the smallest store that passes package drivertest, as an example
// for authors of stores. Its table lives in
// memory. In a store of your own, update is a transaction or a script of your server.
package ministore

import (
	"context"
	"sync"
	"sync/atomic"
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
}

// update runs f on the row of name, alone, with the server's time.
func (t *Table) update(ctx context.Context, name string, f func(r *row, now driver.Instant) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err // certainly nothing was recorded, and a context error is never hidden
	}
	if t.rows == nil {
		t.rows = make(map[string]*row)
	}
	if t.rows[name] == nil {
		t.rows[name] = new(row)
	}
	return f(t.rows[name], driver.Now())
}

// Driver returns a new participant.
func (t *Table) Driver() driver.Driver { return &participant{table: t} }

type participant struct {
	table  *Table
	closed atomic.Bool
}

// Guarantees promises nothing that the table cannot keep: it ends with its process.
func (p *participant) Guarantees() driver.Guarantees {
	return driver.Guarantees{Fencing: true, Expiry: true}
}

func (p *participant) Close() error {
	p.closed.Store(true)
	return nil
}

// TryAcquire takes the row if nobody has it, or if req has it already: a repeated attempt.
func (p *participant) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if p.closed.Load() {
		return nil, driver.ErrClosed
	}
	g := &grant{table: p.table, name: req.Name, lease: req.Lease}
	g.since.Store(int64(driver.Now())) // before the request is sent
	err := p.table.update(ctx, req.Name, func(r *row, now driver.Instant) error {
		held := r.holder.Lease != "" && now < r.ends
		if held && r.holder.Lease != req.Lease {
			return &driver.HeldError{Info: &driver.Info{Name: req.Name, Token: driver.Token(r.token), Holders: []driver.Held{r.holder}}}
		}
		if !held {
			r.token, r.ends = r.token+1, 0 // nothing of the last lease but its token
			r.holder = driver.Held{Holder: *req.Holder, Lease: req.Lease, Token: driver.Token(r.token), Why: req.Why, Acquired: time.Now()}
		}
		r.ends = max(r.ends, now.Add(req.TTL))
		g.token = r.token
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

type grant struct {
	table       *Table
	name, lease string
	token       uint64
	since       atomic.Int64 // a driver.Instant
}

func (g *grant) Token() uint64         { return g.token }
func (g *grant) Since() driver.Instant { return driver.Instant(g.since.Load()) }

// Renew never shortens the lease, and never revives one that has ended.
func (g *grant) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	since := driver.Now()
	err := g.table.update(ctx, g.name, func(r *row, now driver.Instant) error {
		if r.holder.Lease != g.lease || now >= r.ends {
			return &driver.LostError{Reason: driver.Gone}
		}
		r.ends = max(r.ends, now.Add(ttl))
		return nil
	})
	if err != nil {
		return 0, err
	}
	g.since.Store(int64(since))
	return since, nil
}

// Release compares before it deletes. It works although ctx has ended, so that nothing stays.
func (g *grant) Release(ctx context.Context) error {
	return g.table.update(context.WithoutCancel(ctx), g.name, func(r *row, now driver.Instant) error {
		if r.holder.Lease != g.lease || now >= r.ends {
			return &driver.LostError{Reason: driver.Gone}
		}
		r.holder.Lease = ""
		return nil
	})
}
