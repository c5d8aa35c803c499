// SPDX-License-Identifier: Apache-2.0

//go:build !nopostgres

package stores

// A command that was built with -tags nopostgres does without PostgreSQL's client, which
// is 1.2 MB of its file.
import _ "github.com/pawl-go/pawl/pglock"
