// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Watch sees the decisions of a client: before what lets go of a lease, and after what makes it rely on one.
type Watch struct {
	Key  func(name string) string
	Did  func(Decision)
	last atomic.Int64 // renewal
}

// Wall is what the clock of the wall shows, in microseconds, as that of the servers does.
func Wall() int64 { return time.Now().UnixMicro() }

// shift is how far the clock of instants is from that of the wall: the least of many readings, as this
// goroutine may have to wait between two of them.
var shift = sync.OnceValue(func() time.Duration {
	least := time.Duration(1<<63 - 1)
	for range 1000 {
		w, i := Wall(), driver.Now()
		least = min(least, time.Duration(i)-time.Duration(w)*time.Microsecond)
	}
	return least
})

// wallOf is when an instant was.
func wallOf(i driver.Instant) int64 { return (time.Duration(i) - shift()).Microseconds() }

func ceil(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Granted writes down that a request was granted, and returns the grant, whose decisions are written down too.
func (w *Watch) Granted(req *driver.Request, g driver.Grant, err error) (driver.Grant, error) {
	if err != nil || g == nil {
		return g, err
	}
	over := g.Since().Add(req.TTL - driver.Drift(req.TTL))
	// The driver has looked at the clock: what comes between that and this is no step of it.
	w.Did(Decision{What: Grant, Key: w.Key(req.Name), ID: req.Lease, Token: g.Token(), TTL: ceil(req.TTL),
		Over: wallOf(over), At: min(Wall(), wallOf(over)-1)})
	return &watched{Grant: g, w: w, name: req.Name, id: req.Lease, until: over}, nil
}

type watched struct {
	driver.Grant
	w        *Watch
	name, id string
	mu       sync.Mutex
	until    driver.Instant
}

func (g *watched) did(what What) {
	g.w.Did(Decision{What: what, Key: g.w.Key(g.name), ID: g.id, Token: g.Token(), At: Wall()})
}

func (g *watched) Renew(ctx context.Context, ttl time.Duration) (driver.Instant, error) {
	d := Decision{What: Begin, Key: g.w.Key(g.name), ID: g.id, Token: g.Token(), At: Wall(), TTL: ceil(ttl),
		Renewal: fmt.Sprintf("%d.%p.%d", os.Getpid(), g.w, g.w.last.Add(1))}
	d.Over = d.At + (ttl - driver.Drift(ttl)).Microseconds()
	g.w.Did(d)
	since, err := g.Grant.Renew(ctx, ttl)
	g.mu.Lock()
	defer g.mu.Unlock()
	d.At, d.What = Wall(), Fail
	if err == nil {
		over := since.Add(ttl - driver.Drift(ttl))
		d.What, d.Over = Extend, wallOf(over)
		d.At = min(d.At, d.Over-1, wallOf(g.until)-1)
		g.until = max(g.until, over)
	}
	g.w.Did(d)
	return since, err
}

func (g *watched) Release(ctx context.Context) error {
	g.did(LetGo)
	return g.Grant.Release(ctx)
}

func (g *watched) Pass(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g.did(LetGo)
	next, err := g.Grant.(driver.Passer).Pass(ctx, req)
	return g.w.Granted(req, next, err)
}

func (g *watched) Downgrade(ctx context.Context) error {
	g.did(Share)
	return g.Grant.(driver.Downgrader).Downgrade(ctx)
}

func (g *watched) OnLost(f func(error)) { g.Grant.(driver.Notifier).OnLost(f) }
