// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	_ "embed"
	"regexp"
	"strconv"
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

// statement returns the call of a function of a schema with n arguments.
func statement(schema, function string, n int) string {
	columns := "* FROM "
	if function == "release" { // it has one column; this costs the server less
		columns = ""
	}
	args := make([]string, n)
	for i := range args {
		args[i] = "$" + strconv.Itoa(i+1)
	}
	return "SELECT " + columns + quote(schema) + "." + function + "(" + strings.Join(args, ", ") + ")"
}
