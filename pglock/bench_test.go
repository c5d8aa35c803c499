// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
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
