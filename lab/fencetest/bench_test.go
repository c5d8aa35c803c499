// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"database/sql"
	"testing"
)

// BenchmarkInstall is what Install costs: a transaction that writes a row, with and
// without it.
func BenchmarkInstall(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *database{"postgres": openPostgres, "sqlite": openSQLite} {
		db := open(b)
		b.Run(name+"/with", func(b *testing.B) {
			for b.Loop() {
				if _, err := db.save(b.Context(), 0, "x", 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/without", func(b *testing.B) {
			for b.Loop() {
				if _, err := db.in(b.Context(), 0, func(tx *sql.Tx) error {
					_, err := tx.Exec(db.write, "x", 1)
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
