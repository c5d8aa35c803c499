// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

//go:embed sql/schema.sql
var schemaSQL string

// version is the version of sql/schema.sql. A client works only with this version.
const version = 1

var schemaName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bpawl\.|SCHEMA IF NOT EXISTS pawl\b`) })

// Schema returns the SQL that makes the schema of a store, for use with a migration tool. If name is empty, it is
// "pawl". The SQL is safe to apply again. Open applies it if the schema is missing and the user has the right to
// create it.
func Schema(name string) string { return inSchema(schemaSQL, name) }

// inSchema renames the schema in SQL.
func inSchema(sql, name string) string {
	if name == "" || name == defaultSchema {
		return sql
	}
	return schemaName().ReplaceAllStringFunc(sql, func(s string) string {
		return strings.Replace(s, defaultSchema, quote(name), 1)
	})
}

// quote turns a name into an identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// statements are the calls of the functions of one schema.
type statements struct {
	acquire, acquireMany, releaseMany, renew, renewAll, release, downgrade, brk, look, bind, change, tidy, guard, describe, examine string
}

func newStatements(schema string) statements {
	call := func(s string) string { return "SELECT * FROM " + quote(schema) + "." + s }
	one := func(s string) string { return "SELECT " + quote(schema) + "." + s } // for one column; costs the server less
	return statements{
		acquire:     call("acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"),
		acquireMany: call("acquire_many($1, $2, $3, $4, $5, $6)"),
		releaseMany: call("release_many($1, $2)"),
		renew:       call("renew($1, $2, $3, $4, $5)"),
		renewAll:    call("renew_all($1, $2, $3, $4, $5)"),
		release:     one("release($1, $2, $3, $4, $5)"),
		downgrade:   call("downgrade($1, $2, $3, $4, $5, $6, $7, $8)"),
		brk:         call("break($1, $2, $3, $4)"),
		look:        call("look($1, $2)"),
		bind:        call("bind($1, $2, $3)"),
		change:      call("change($1, $2, $3)"),
		tidy:        call("tidy($1, $2, $3)"),
		guard:       "SELECT " + quote(schema) + ".guard($1, $2, $3)",
		describe:    call("describe($1)"),
		examine:     call("examine()"),
	}
}
