// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pglock

import (
	"context"
	_ "embed"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed testdata/schema2.sql
var schema2 string

// TestUpgrade: a new client replaces the functions of version 2 while clients of that version
// work. They go on, with the statements that they know, beside those of the new one.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	const schema = "upgrade"
	p := server(t)
	sql(t, p, inSchema(schema2, schema))
	// The record of the run is there: an old client has worked before.
	sql(t, p, `SELECT "upgrade".bind('durable', 60000000, 'old', (SELECT system_identifier::text FROM pg_control_system()))`)
	ctx, stop := context.WithCancel(t.Context())
	var rounds [3]atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range rounds {
		all.Go(func() {
			c, err := pgx.Connect(t.Context(), p.URL("pawl"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close(context.Background())
			for last := int64(0); ctx.Err() == nil; rounds[i].Add(1) {
				token, err := asVersion2(t.Context(), c, fmt.Sprint(i), fmt.Sprint("lease ", i, " ", rounds[i].Load()))
				if err != nil || token <= last {
					t.Errorf("round %d of an old client: token %d after %d, %v", rounds[i].Load(), token, last, err)
					return
				}
				last = token
			}
		})
	}
	progress := func() bool {
		var was [len(rounds)]int64
		for i := range was {
			was[i] = rounds[i].Load()
		}
		return eventually(patience, func() bool {
			for i := range was {
				if rounds[i].Load() < was[i]+20 {
					return false
				}
			}
			return true
		})
	}
	if !progress() {
		t.Fatal("no old client works before")
	}
	d := open(t, p.URL("pawl"), &Options{Schema: schema})
	if got := sql(t, p, `SELECT version || ' ' || oldest FROM "upgrade".meta`); got != fmt.Sprint(version, " ", 1) {
		t.Errorf("version and oldest: %s", got)
	}
	for range 20 {
		m := asks("new", fmt.Sprint("new ", time.Now().UnixNano()))
		m.args[3] = "20000000"
		if g := take(t, d, "new", 20*time.Second); g.Release(t.Context()) != nil {
			t.Error("a release has failed")
		}
		if d.takeAll(t.Context(), []*member{m}); m.row == nil {
			t.Fatalf("a new client is granted nothing: %+v", m.fail)
		}
		if d.giveAll(t.Context(), []*member{m}); m.row == nil || integer(m.row[0]) != 1 {
			t.Fatalf("a new client cannot release: %+v", m.fail)
		}
	}
	if !progress() {
		t.Error("an old client has stopped")
	}
}

// asVersion2 takes a name twice with the statements of a client of version 2, alone and as a
// batch, and returns the last token.
func asVersion2(ctx context.Context, c *pgx.Conn, name, lease string) (token int64, err error) {
	var code int
	tl := "(SELECT timeline FROM upgrade.epoch)"
	for _, q := range []struct {
		sql  string
		args []any
		into *int64
	}{
		{"SELECT code, token FROM upgrade.acquire(" + tl + ", $1, $2, 'old', 0, '{}', 20000000, 1000000, 0, 10000000)", []any{name, lease}, &token},
		{"SELECT code, 0 FROM upgrade.renew(" + tl + ", $1, $2, 0, 20000000)", []any{name, lease}, nil},
		{"SELECT release, 0 FROM upgrade.release($1, $2, 1000000, false, false)", []any{name, lease}, nil},
		{"SELECT code, token FROM upgrade.acquire_free(" + tl + ", 'old', ARRAY[$1], ARRAY[$2], ARRAY['{}'], ARRAY[20000000])", []any{name, lease + " again"}, &token},
		{"SELECT code, 0 FROM upgrade.release_free(ARRAY[$1], ARRAY[$2])", []any{name, lease + " again"}, nil},
	} {
		var got int64
		if err := c.QueryRow(ctx, q.sql, q.args...).Scan(&code, &got); err != nil {
			return 0, fmt.Errorf("%s: %w", q.sql, err)
		}
		if code != 1 {
			return 0, fmt.Errorf("%s: %d", q.sql, code)
		}
		if q.into != nil {
			if got <= *q.into {
				return 0, fmt.Errorf("token %d after %d", got, *q.into)
			}
			*q.into = got
		}
	}
	return token, nil
}
