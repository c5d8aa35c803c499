// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
)

// TestConcurrentWriters: with 32 writers and tokens that are mixed, no accepted write has a
// token below one accepted before it. The row of pawl_fence is locked until the
// transaction ends, so the numbers of the history are drawn in the order of the
// commits. All begin at once, so the first inserts collide.
func TestConcurrentWriters(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *database) {
		for _, level := range db.levels() {
			t.Run(level.String(), func(t *testing.T) {
				resource := "concurrent " + level.String()
				var refused, tries atomic.Int64
				crowd(t, func(token pawl.Token) {
					n, err := db.save(t.Context(), level, resource, token)
					tries.Add(int64(n))
					if errors.Is(err, fence.ErrStale) {
						refused.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
				tokens := db.history(t, resource)
				if err := violation(tokens); err != nil {
					t.Error(err)
				}
				if len(tokens) == 0 || refused.Load() == 0 || len(tokens)+int(refused.Load()) != writers*writes {
					t.Errorf("%d accepted, %d refused", len(tokens), refused.Load())
				}
				t.Logf("%d accepted, %d refused, in %d transactions", len(tokens), refused.Load(), tries.Load())
			})
		}
	})
}

const writers, writes = 32, 12

// crowd calls write from 32 goroutines with tokens that grow on the whole, but
// of which many are late.
func crowd(t *testing.T, write func(pawl.Token)) {
	t.Helper()
	var next atomic.Int64
	var wait sync.WaitGroup
	start := make(chan bool)
	for range writers {
		wait.Go(func() {
			<-start
			for range writes {
				write(pawl.Token(100 + next.Add(1) - rand.Int64N(100)))
			}
		})
	}
	close(start)
	wait.Wait()
}

// TestInstall: what is refused, and what it says.
func TestInstall(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *database) {
		for _, level := range db.levels() {
			resource := "install " + level.String()
			do := func(token pawl.Token) error {
				_, err := db.save(t.Context(), level, resource, token)
				return err
			}
			for _, token := range []pawl.Token{33, 33, 34, 1<<53 + 1, 1<<53 + 2, fence.MaxToken} {
				if err := do(token); err != nil {
					t.Errorf("%v: token %d: %v", level, token, err)
				}
			}
			var stale *fence.StaleError
			if err := do(fence.MaxToken - 1); !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: resource, Token: fence.MaxToken - 1, Seen: fence.MaxToken}) {
				t.Errorf("%v: a late write: %v", level, err)
			}
			if tokens := db.history(t, resource); len(tokens) != 6 {
				t.Errorf("%v: written: %v", level, tokens)
			}
		}
		for _, token := range []pawl.Token{0, fence.MaxToken + 1} {
			if _, err := db.save(t.Context(), 0, "x", token); err == nil || !strings.Contains(err.Error(), fmt.Sprint(token)) {
				t.Errorf("token %d: %v", token, err)
			}
		}
		_, err := db.in(t.Context(), 0, func(tx *sql.Tx) error { return fence.Dialect(0).Install(t.Context(), tx, "x", 1) })
		if err == nil || !strings.Contains(err.Error(), "use fence.PostgreSQL") {
			t.Errorf("no dialect: %v", err)
		}
		if _, err := db.Exec("DROP TABLE pawl_fence"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.save(t.Context(), 0, "x", 1); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), `resource "x"`) {
			t.Errorf("without the table: %v", err)
		}
	})
}
