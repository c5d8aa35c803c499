// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/fence"
)

// TestPausedTransaction: one that is paused between check and write keeps the next
// holder waiting, at every isolation level; then that one reads what was written.
func TestPausedTransaction(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *database) {
		for _, level := range db.levels() {
			for _, first := range []bool{true, false} { // with the row not there yet
				resource := fmt.Sprintf("paused %v %v", level, first)
				if !first {
					if _, err := db.save(t.Context(), level, resource, 1); err != nil {
						t.Fatal(err)
					}
				}
				before := len(db.history(t, resource))
				tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				if err := db.dialect.Install(t.Context(), tx, resource, 33); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				if _, err := db.save(ctx, level, resource, 34); !errors.Is(err, context.DeadlineExceeded) && !again(err) {
					t.Errorf("%s: beside a write: %v", resource, err)
				}
				cancel()
				seen := make(chan int, 1)
				go func() {
					var n int
					_, err := db.in(t.Context(), level, func(tx *sql.Tx) error {
						if err := db.dialect.Install(t.Context(), tx, resource, 34); err != nil {
							return err
						}
						return tx.QueryRow("SELECT count(*) FROM history WHERE resource = '" + resource + "'").Scan(&n)
					})
					if err != nil {
						t.Errorf("%s: the next holder: %v", resource, err)
					}
					seen <- n
				}()
				if db.dialect == fence.PostgreSQL {
					db.awaitWaiter(t)
				}
				if _, err := tx.Exec(db.write, resource, 33); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				if n := <-seen; n != before+1 {
					t.Errorf("%s: the next holder sees %d writes, want %d", resource, n, before+1)
				}
				if _, err := db.save(t.Context(), level, resource, 33); !errors.Is(err, fence.ErrStale) {
					t.Errorf("%s: a late write: %v", resource, err)
				}
			}
		}
	})
}

// awaitWaiter waits until a transaction waits for another.
func (db *database) awaitWaiter(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return
		}
	}
	t.Fatal("the next holder does not wait")
}

// TestReadBeforeInstall: a transaction that has read before another holder wrote, and
// that only then installs its token, is told to try again where its reads are from
// one moment. At READ COMMITTED it is not, which is why Install comes first.
func TestReadBeforeInstall(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *database) {
		for _, level := range db.levels() {
			resource := "early " + level.String()
			if _, err := db.save(t.Context(), level, resource, 33); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if err := tx.QueryRow("SELECT count(*) FROM history").Scan(&n); err != nil {
				t.Fatal(err)
			}
			// With the same token as before: no look at the token alone would tell.
			if _, err := db.save(t.Context(), level, resource, 33); err != nil {
				t.Fatal(err)
			}
			err = db.dialect.Install(t.Context(), tx, resource, 34)
			tx.Rollback()
			if want := level != sql.LevelReadCommitted; again(err) != want || !want && err != nil {
				t.Errorf("%v: %v; asks to try again: %v, want %v", level, err, again(err), want)
			}
		}
	})
}
