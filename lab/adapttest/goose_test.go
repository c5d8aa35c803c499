// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/memlock"
)

var (
	_ lock.Locker        = (*adapt.GooseLocker)(nil)
	_ lock.SessionLocker = (*adapt.GooseLocker)(nil)
)

// The second migration is not one that can be carried out twice.
var migrations = fstest.MapFS{
	"00001_accounts.sql": {Data: []byte("-- +goose Up\nCREATE TABLE accounts (id INTEGER, balance INTEGER);\nINSERT INTO accounts VALUES (1, 100);\n")},
}

// migrator returns a provider of goose, as of one process, with a second migration. How is what it locks with.
func migrator(t *testing.T, dir, how string, locks *pawl.Client, second *goose.GoFunc) *goose.Provider {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "accounts.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	opts := []goose.ProviderOption{goose.WithGoMigrations(goose.NewGoMigration(2, second, nil)), goose.WithDisableGlobalRegistry(true)}
	g := &adapt.GooseLocker{Locks: locks, Name: "migrate/accounts"}
	switch how {
	case "Locker":
		opts = append(opts, goose.WithLocker(g))
	case "SessionLocker":
		opts = append(opts, goose.WithSessionLocker(g))
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// Two providers with a new migration start at once. It is carried out once, and the
// other finds nothing to do; without the lock, both are in it at the same time.
func TestGooseMigratesOnce(t *testing.T) {
	for _, locker := range []string{"Locker", "SessionLocker", "none"} {
		t.Run(locker, func(t *testing.T) {
			var store memlock.Store
			dir := t.TempDir()
			begun, goOn, done := make(chan bool, 2), make(chan bool), make(chan error, 2)
			start := func() {
				m := migrator(t, dir, locker, open(t, &store), &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
					begun <- true
					<-goOn
					_, err := db.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10")
					return err
				}})
				go func() { _, err := m.Up(context.Background()); done <- err }()
			}
			start()
			receive(t, begun)
			start()
			want := 110
			if locker == "none" {
				receive(t, begun)
				want = 120
			} else {
				waitForWaiter(t, open(t, &store))
				if len(begun) > 0 {
					t.Error("both are in the migration")
				}
			}
			close(goOn)
			for range 2 {
				if err := receive(t, done); err != nil {
					t.Error(err)
				}
			}
			if got := balance(t, dir); got != want {
				t.Errorf("the balance is %d, want %d", got, want)
			}
		})
	}
}

// waitForWaiter returns when somebody waits for the lock.
func waitForWaiter(t *testing.T, locks *pawl.Client) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		info, err := locks.Inspect(t.Context(), "migrate/accounts")
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Waiters) > 0 {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("nobody waits: %+v", info)
		}
	}
}

func balance(t *testing.T, dir string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "accounts.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT balance FROM accounts").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A lease that is lost in the middle of a migration does not pass in silence: Up
// returns the error of Unlock. And under Client.Do goose is stopped, and rolls back.
func TestGooseLoss(t *testing.T) {
	for _, how := range []string{"Locker", "SessionLocker", "Do"} {
		t.Run(how, func(t *testing.T) {
			var store memlock.Store
			locks, other := open(t, &store), open(t, &store)
			dir := t.TempDir()
			provider := migrator(t, dir, how, locks, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
				if err := breakLease(ctx, other); err != nil {
					return err
				}
				if how == "Do" {
					<-ctx.Done()
					if err := context.Cause(ctx); !errors.Is(err, pawl.ErrLost) {
						t.Errorf("the migration's context ends with %v", err)
					}
				}
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10")
				return err
			}})
			up := func(ctx context.Context, _ *pawl.Lease) error {
				_, err := provider.Up(ctx)
				return err
			}
			want, err := 110, error(nil)
			if how == "Do" {
				want = 100
				err = locks.Do(t.Context(), "migrate/accounts", up)
			} else {
				err = up(t.Context(), nil)
			}
			if !errors.Is(err, pawl.ErrLost) {
				t.Errorf("Up = %v, want ErrLost", err)
			}
			if got := balance(t, dir); got != want {
				t.Errorf("the balance is %d, want %d", got, want)
			}
		})
	}
}

func breakLease(ctx context.Context, other *pawl.Client) error {
	info, err := other.Inspect(ctx, "migrate/accounts")
	if err != nil || len(info.Holders) != 1 {
		return fmt.Errorf("who migrates: %+v, %w", info, err)
	}
	return other.Break(context.WithoutCancel(ctx), "migrate/accounts", info.Holders[0].Lease, "a test")
}
