// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// BenchmarkPair is acquire and release of a free lock, beside what it costs at least: two
// round trips that write one row each, and an advisory lock in a transaction.
func BenchmarkPair(b *testing.B) {
	p := server(b)
	for _, mode := range []Mode{Durable, Async} {
		b.Run("pawl, "+string(mode), func(b *testing.B) {
			d := open(b, p.URL("pawl"), &Options{Schema: "bench " + string(mode), Mode: mode})
			for b.Loop() {
				g, err := d.TryAcquire(context.Background(), request("pair", 30*time.Second))
				if err != nil {
					b.Fatal(err)
				}
				if err := g.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			remains(b, p, "bench "+string(mode))
		})
	}
	c, err := pgx.Connect(context.Background(), p.URL("pawl"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	sql(b, p, "CREATE TABLE IF NOT EXISTS floor (id int PRIMARY KEY, n int) WITH (fillfactor = 50); INSERT INTO floor VALUES (1, 0) ON CONFLICT DO NOTHING")
	for _, level := range []string{"on", "off"} {
		b.Run("two writes, synchronous_commit="+level, func(b *testing.B) {
			if _, err := c.Exec(context.Background(), "SET synchronous_commit = "+level); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for range 2 {
					if _, err := c.Exec(context.Background(), "UPDATE floor SET n = n + 1 WHERE id = $1", 1); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("advisory lock in a transaction", func(b *testing.B) {
		for b.Loop() {
			tx, err := c.Begin(context.Background())
			if err == nil {
				_, err = tx.Exec(context.Background(), "SELECT pg_advisory_xact_lock($1)", 7)
			}
			if err == nil {
				err = tx.Commit(context.Background())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// remains reports what is left of the table with the rows of names, and how many updates were
// in place.
func remains(b *testing.B, p *servers.Postgres, schema string) {
	b.Helper()
	table := "'" + quote(schema) + ".lock'::regclass"
	for unit, query := range map[string]string{
		"KiB-table": "SELECT pg_total_relation_size(" + table + ") / 1024",
		"dead-rows": "SELECT pg_stat_get_dead_tuples(" + table + ")",
		"hot-%":     "SELECT round(100 * n_tup_hot_upd / greatest(1, n_tup_upd)) FROM pg_stat_all_tables WHERE relid = " + table,
	} {
		n, err := strconv.ParseFloat(sql(b, p, query), 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(n, unit)
	}
}

// BenchmarkBatch is 64 goroutines of one client, each with a lock of its own, or all with one.
func BenchmarkBatch(b *testing.B) {
	p := server(b)
	for _, names := range []int{64, 1} {
		b.Run(fmt.Sprintf("names=%d", names), func(b *testing.B) {
			locks, err := Open(context.Background(), p.URL("pawl"), &Options{Schema: "batch"})
			if err != nil {
				b.Fatal(err)
			}
			defer locks.Close()
			var next atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				name := fmt.Sprint("batch/", next.Add(1)%int64(names))
				for pb.Next() {
					if err := locks.Do(context.Background(), name, func(context.Context, *pawl.Lease) error { return nil }); err != nil {
						b.Error(err)
					}
				}
			})
			b.StopTimer()
			remains(b, p, "batch")
		})
	}
}

// BenchmarkKeepIdle is one client again and again, two in bursts of 20, and two in strict
// turns: with KeepIdle, as a share of the time without. Both sides run in turn. "first" is
// the first acquire of another client while a name is kept, as a multiple of that of a free
// one.
func BenchmarkKeepIdle(b *testing.B) {
	p := server(b)
	for _, w := range []struct {
		name           string
		clients, burst int
	}{{"again", 1, 1}, {"bursts", 2, 20}, {"turns", 2, 1}, {"first", 2, 0}} {
		b.Run(w.name, func(b *testing.B) {
			var all []*pawl.Client
			for range w.clients {
				all = append(all, keeper(b, p.URL("pawl")))
			}
			use := func(c *pawl.Client, name string, d time.Duration) {
				l, err := c.Acquire(b.Context(), name, pawl.KeepIdle(d))
				if err == nil {
					err = l.Release(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			var with, without time.Duration
			for round := 0; b.Loop(); round++ {
				for _, d := range []time.Duration{0, time.Hour} {
					name := fmt.Sprint(w.name, d > 0)
					if w.burst == 0 {
						use(all[0], fmt.Sprint(name, round), d)
						use(all[0], fmt.Sprint(name, round), d)
					}
					began := time.Now()
					switch w.burst {
					case 0:
						use(all[1], fmt.Sprint(name, round), 0)
					default:
						for i := range 20 * w.burst {
							use(all[i/w.burst%len(all)], name, d)
						}
					}
					if d > 0 {
						with += time.Since(began)
					} else {
						without += time.Since(began)
					}
				}
			}
			b.ReportMetric(with.Seconds()/without.Seconds(), "share")
			if w.burst > 0 {
				b.ReportMetric(with.Seconds()*1e6/float64(b.N*20*w.burst), "µs/lease")
			}
		})
	}
}

// BenchmarkHandOver is from the release of one client to the grant of another that waits, as a
// multiple of NOTIFY to delivery. Both run in turn; the figure is of the medians.
func BenchmarkHandOver(b *testing.B) {
	p := server(b)
	clients := [2]*client{open(b, p.URL("pawl"), wide), open(b, p.URL("pawl"), wide)}
	var speak, hear *pgx.Conn
	for _, c := range []**pgx.Conn{&speak, &hear} {
		var err error
		if *c, err = pgx.Connect(b.Context(), p.URL("pawl")); err != nil {
			b.Fatal(err)
		}
		defer (*c).Close(context.Background())
	}
	if _, err := hear.Exec(b.Context(), "LISTEN bell"); err != nil {
		b.Fatal(err)
	}
	var passed, notified []time.Duration
	until := func(took *[]time.Duration, wait func() error, tell func() error) {
		came := make(chan time.Time, 1)
		go func() {
			if err := wait(); err != nil {
				b.Error(err)
			}
			came <- time.Now()
		}()
		time.Sleep(10 * time.Millisecond) // until it waits
		began := time.Now()
		if err := tell(); err != nil {
			b.Fatal(err)
		}
		*took = append(*took, (<-came).Sub(began))
	}
	g, err := clients[0].TryAcquire(b.Context(), request("hand over", time.Minute))
	if err != nil {
		b.Fatal(err)
	}
	for i := 1; b.Loop(); i++ {
		req := request("hand over", time.Minute)
		req.Renewed = true
		var next *participant.Lease
		until(&passed, func() (err error) {
			next, err = clients[i%2].Acquire(b.Context(), req)
			return err
		}, func() error { return g.Release(b.Context()) })
		g = next
		until(&notified, func() error { _, err := hear.WaitForNotification(b.Context()); return err },
			func() error { _, err := speak.Exec(b.Context(), "SELECT pg_notify($1, 'x')", "bell"); return err })
	}
	median := func(all []time.Duration) float64 { slices.Sort(all); return all[len(all)/2].Seconds() }
	b.ReportMetric(median(passed)/median(notified), "×NOTIFY")
}
