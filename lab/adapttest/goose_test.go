// SPDX-License-Identifier: Apache-2.0

package adapttest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/filelock"
	"github.com/pawl-go/pawl/memlock"
)

var (
	_ lock.Locker        = (*adapt.GooseLocker)(nil)
	_ lock.SessionLocker = (*adapt.GooseLocker)(nil)
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("PAWL_TEST_MIGRATE"); dir != "" {
		if err := migrate(dir, os.Getenv("PAWL_TEST_LOCKER")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The second migration is not one that can be carried out twice.
var migrations = fstest.MapFS{
	"00001_accounts.sql": {Data: []byte("-- +goose Up\nCREATE TABLE accounts (id INTEGER, balance INTEGER);\nINSERT INTO accounts VALUES (1, 100);\n")},
}

// migrate is one process that starts with a new version of the program. Its second
// migration says on standard output that it has begun, and goes on when there is
// a line on standard input.
func migrate(dir, locker string) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "accounts.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		return err
	}
	defer db.Close()
	locks, err := filelock.Open(filepath.Join(dir, "locks"), nil)
	if err != nil {
		return err
	}
	defer locks.Close()
	bonus := goose.NewGoMigration(2, &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
		fmt.Println("migrating")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10")
		return err
	}}, nil)
	opts := []goose.ProviderOption{goose.WithGoMigrations(bonus), goose.WithDisableGlobalRegistry(true)}
	g := &adapt.GooseLocker{Locks: locks, Name: "migrate/accounts"}
	switch locker {
	case "Locker":
		opts = append(opts, goose.WithLocker(g))
	case "SessionLocker":
		opts = append(opts, goose.WithSessionLocker(g))
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, opts...)
	if err != nil {
		return err
	}
	_, err = provider.Up(context.Background())
	return err
}

// migrator is such a process.
type migrator struct {
	*exec.Cmd
	stdin  io.WriteCloser
	begun  chan struct{} // closed when it is in the second migration
	output strings.Builder
}

func startMigrator(t *testing.T, dir, locker string) *migrator {
	t.Helper()
	m := &migrator{Cmd: exec.Command(os.Args[0]), begun: make(chan struct{})}
	m.Env = append(os.Environ(), "PAWL_TEST_MIGRATE="+dir, "PAWL_TEST_LOCKER="+locker)
	m.Stderr = &m.output
	var err error
	if m.stdin, err = m.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := m.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Process.Kill() })
	go func() {
		if line, _ := bufio.NewReader(stdout).ReadString('\n'); line == "migrating\n" {
			close(m.begun)
		}
	}()
	return m
}

// finish lets the process go on, and returns when it has ended.
func (m *migrator) finish(t *testing.T) {
	t.Helper()
	fmt.Fprintln(m.stdin)
	if err := m.Wait(); err != nil {
		t.Errorf("a process ends with %v: %s", err, &m.output)
	}
}

// Two processes with a new migration start at once. It is carried out once, and the
// other finds nothing to do; without the lock, both are in it at the same time.
func TestGooseMigratesOnce(t *testing.T) {
	for _, locker := range []string{"Locker", "SessionLocker", "none"} {
		t.Run(locker, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "locks"), 0o700); err != nil {
				t.Fatal(err)
			}
			first := startMigrator(t, dir, locker)
			receive(t, first.begun)
			second := startMigrator(t, dir, locker)
			want := 110
			if locker == "none" {
				receive(t, second.begun)
				want = 120
			} else {
				waitForWaiter(t, dir)
				select {
				case <-second.begun:
					t.Error("both are in the migration")
				default:
				}
			}
			first.finish(t)
			second.finish(t)
			if got := balance(t, dir); got != want {
				t.Errorf("the balance is %d, want %d", got, want)
			}
		})
	}
}

// waitForWaiter returns when a process waits for the lock.
func waitForWaiter(t *testing.T, dir string) {
	t.Helper()
	locks, err := filelock.Open(filepath.Join(dir, "locks"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
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
			db, err := sql.Open("sqlite", filepath.Join(dir, "accounts.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			bonus := goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
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
			}}, nil)
			opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(bonus)}
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
			up := func(ctx context.Context, _ *pawl.Lease) error {
				_, err := provider.Up(ctx)
				return err
			}
			want := 110
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
