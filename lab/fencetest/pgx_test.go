// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
)

// TestInstallPgx: with pgx's own transactions the same is refused as with those of database/sql.
func TestInstallPgx(t *testing.T) {
	db := openPostgres(t)
	conn, err := pgx.Connect(t.Context(), db.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	do := func(token pawl.Token) error {
		return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			return fence.InstallPgx(t.Context(), tx, "x", token)
		})
	}
	for _, token := range []pawl.Token{33, 33, fence.MaxToken} {
		if err := do(token); err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	var stale *fence.StaleError
	if err := do(34); !errors.As(err, &stale) || *stale != (fence.StaleError{Resource: "x", Token: 34, Seen: fence.MaxToken}) {
		t.Errorf("a late write: %v", err)
	}
	if _, err := db.save(t.Context(), 0, "x", 34); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a late write through database/sql: %v", err)
	}
	if err := do(0); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := db.Exec("DROP TABLE pawl_fence"); err != nil {
		t.Fatal(err)
	}
	if err := do(1); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("without the table: %v", err)
	}
}
