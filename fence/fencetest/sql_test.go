// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
)

// database is a database with the table of package fence, and one for the history of
// a resource, whose rows are numbered in the order in which they were written.
type database struct {
	*sql.DB
	dialect fence.Dialect
	write   string // the statement
}

var databases atomic.Int64

func openPostgres(t testing.TB) *database {
	t.Helper()
	admin, err := sql.Open("pgx", postgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	schema := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := admin.Exec("CREATE SCHEMA " + schema); err != nil {
		t.Fatal(err)
	}
	return open(t, "pgx", postgresURL+"&search_path="+schema, fence.PostgreSQL,
		`CREATE TABLE history (seq BIGINT GENERATED ALWAYS AS IDENTITY, resource TEXT, token BIGINT)`,
		`INSERT INTO history (resource, token) VALUES ($1, $2)`)
}

func openSQLite(t testing.TB) *database {
	t.Helper()
	// It waits for so long whatever the context says; then the transaction is tried again.
	url := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(100)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	return open(t, "sqlite", url, fence.SQLite,
		`CREATE TABLE history (seq INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT, token BIGINT)`,
		`INSERT INTO history (resource, token) VALUES (?, ?)`)
}

func open(t testing.TB, driver, url string, dialect fence.Dialect, create, write string) *database {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, s := range []string{fence.Schema, fence.Schema, create} { // the schema may be there already
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	return &database{db, dialect, write}
}

func onEveryDatabase(t *testing.T, f func(t *testing.T, db *database)) {
	t.Run("postgres", func(t *testing.T) { f(t, openPostgres(t)) })
	t.Run("sqlite", func(t *testing.T) { f(t, openSQLite(t)) })
}

// again reports whether the database asks to try the transaction again.
func again(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == 5 // SQLITE_BUSY
}

// in runs f in a transaction, again and again while the database asks for it.
func (db *database) in(ctx context.Context, level sql.IsolationLevel, f func(tx *sql.Tx) error) (tries int, err error) {
	for tries = 1; ; tries++ {
		err = func() error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := f(tx); err != nil {
				return err
			}
			return tx.Commit()
		}()
		if err == nil || !again(err) {
			return tries, err
		}
	}
}

// save writes a row of the history, fenced.
func (db *database) save(ctx context.Context, level sql.IsolationLevel, resource string, token pawl.Token) (tries int, err error) {
	return db.in(ctx, level, func(tx *sql.Tx) error {
		if err := db.dialect.Install(ctx, tx, resource, token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, db.write, resource, int64(token))
		return err
	})
}

// history returns the tokens of a resource in the order of the writes.
func (db *database) history(t testing.TB, resource string) (tokens []int64) {
	t.Helper()
	rows, err := db.Query("SELECT token FROM history WHERE resource = '" + resource + "' ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var token int64
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// violation returns the first token that is below one before it.
func violation(tokens []int64) error {
	for i := 1; i < len(tokens); i++ {
		if tokens[i] < tokens[i-1] {
			return fmt.Errorf("row %d has token %d, after %d", i, tokens[i], tokens[i-1])
		}
	}
	return nil
}

// levels are the isolation levels that databases tell apart; the driver of SQLite knows
// only its own.
func (db *database) levels() []sql.IsolationLevel {
	if db.dialect == fence.SQLite {
		return []sql.IsolationLevel{sql.LevelDefault}
	}
	return []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}

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

// TestWithoutTheFence is the control: the same without the check of the token.
func TestWithoutTheFence(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *database) {
		if _, err := db.Exec("INSERT INTO pawl_fence (resource, token) VALUES ('control', 0)"); err != nil {
			t.Fatal(err)
		}
		crowd(t, func(token pawl.Token) {
			if _, err := db.in(t.Context(), db.levels()[0], func(tx *sql.Tx) error {
				// It locks the row as Install does, so that the history is in order.
				if _, err := tx.Exec("UPDATE pawl_fence SET token = token WHERE resource = 'control'"); err != nil {
					return err
				}
				_, err := tx.Exec(db.write, "control", int64(token))
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		tokens := db.history(t, "control")
		if len(tokens) != writers*writes || violation(tokens) == nil {
			t.Errorf("%d writes without the fence, and no token is below one before it", len(tokens))
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

// TestRollback: a transaction that ends without a commit, as its process was killed for
// one, has raised nothing and written nothing.
func TestRollback(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *database) {
		killed := errors.New("killed")
		if _, err := db.in(t.Context(), 0, func(tx *sql.Tx) error {
			if err := db.dialect.Install(t.Context(), tx, "x", 34); err != nil {
				return err
			}
			return killed
		}); err != killed {
			t.Fatal(err)
		}
		if _, err := db.save(t.Context(), 0, "x", 33); err != nil {
			t.Errorf("as if nothing had been: %v", err)
		}
	})
}

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
