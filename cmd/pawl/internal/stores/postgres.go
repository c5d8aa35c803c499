// SPDX-License-Identifier: Apache-2.0

//go:build !nopostgres

package stores

// Build with -tags nopostgres to leave PostgreSQL's client out. It adds 1.2 MB to the
// binary.
import _ "github.com/pawl-go/pawl/pglock"
