// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed sql/schema.sql
var schemaSQL string

// version is that of sql/schema.sql. A client works with a schema whose oldest is not after
// it.
const version = 2

var schemaName = regexp.MustCompile(`\bpawl\.|SCHEMA IF NOT EXISTS pawl\b`)

// Schema returns the SQL that makes the schema of a store with the given name, or "pawl"
// if that is empty, for those who want to apply it with a migration tool. It can be
// applied again. Open applies it if it is missing and the user has the right to.
func Schema(name string) string {
	if name == "" || name == defaultSchema {
		return schemaSQL
	}
	return schemaName.ReplaceAllStringFunc(schemaSQL, func(s string) string {
		return strings.Replace(s, defaultSchema, quote(name), 1)
	})
}

// quote makes an identifier of a name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// statements are the calls of the functions of one schema.
type statements struct {
	acquire, acquireFree, releaseFree, all, renew, renewAll, release, pass, downgrade, brk, look, bind, change, tidy, guard, inUse, news, open string
}

func newStatements(schema string) statements {
	call := func(s string) string { return "SELECT * FROM " + quote(schema) + "." + s }
	return statements{
		acquire:     call("acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
		acquireFree: call("acquire_free($1, $2, $3, $4, $5, $6)"),
		releaseFree: call("release_free($1, $2)"),
		all:         call("acquire_all($1, $2, $3, $4, $5, $6, $7)"),
		renew:       call("renew($1, $2, $3, $4, $5)"),
		renewAll:    call("renew_all($1, $2, $3, $4, $5)"),
		release:     call("release($1, $2, $3, $4, $5)"),
		pass:        call("pass($1, $2, $3, $4, $5, $6, $7)"),
		downgrade:   call("downgrade($1, $2, $3)"),
		brk:         call("break($1, $2, $3, $4, $5)"),
		look:        call("look($1, $2)"),
		bind:        call("bind($1, $2, $3, (SELECT system_identifier::text FROM pg_control_system()))") + ", current_setting('transaction_isolation')",
		change:      call("change($1, $2, $3)"),
		tidy:        call("tidy($1, $2, $3)"),
		guard:       "SELECT " + quote(schema) + ".guard($1, $2, $3)",
		inUse:       call("in_use($1, $2)"),
		news:        "SELECT news FROM " + quote(schema) + ".ended WHERE lease = $1",
		open:        "SELECT code, closed - " + quote(schema) + ".us() FROM " + quote(schema) + ".open($1, 0)",
	}
}
