// SPDX-License-Identifier: Apache-2.0

package mutants

func init() {
	in := func(pkg string) func(name, file, old, new, test string) {
		return func(name, file, old, new, test string) {
			folder := "fence/"
			if pkg == "redislock/redisfence" {
				folder = pkg + "/"
			}
			mutants = append(mutants, mutant{name: "fence: " + name, file: folder + file, old: old, new: new, pkg: pkg, test: test})
		}
	}
	fence, database, redis := in("fence"), in("lab/fencetest"), in("redislock/redisfence")

	fence("memory without the check", "guard.go",
		"if token < g.seen {", "if false {", "TestStaleTokenIsRefused")
	fence("memory that is not raised", "guard.go",
		"\tg.seen = token\n", "", "TestInstallBeforeRead")
	fence("a write after the guard has let go", "guard.go",
		"\tdefer g.leave()\n", "\tg.leave()\n", "TestPausedBetweenCheckAndWrite")
	fence("a directory without the check", "dir.go",
		"if token < seen {", "if false {", "TestStaleTokenIsRefused")
	fence("a damaged file has seen nothing", "dir.go",
		"if err != nil || string(content) != line(resource, n) {", "if false {", "TestDamagedFile")
	fence("a lock of another process is ignored", "dir_unix.go",
		"syscall.LOCK_EX|", "syscall.LOCK_SH|", "TestTwoGuardsOnOneDirectory")
	fence("a token that is not on the disk", "dir.go",
		"err = syncFile(f)", "_ = syncFile(f)", "TestNothingIsWrittenBeforeTheTokenIsOnTheDisk")
	fence("a file that is written in place", "dir.go",
		"os.OpenFile(path+\".new\", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)",
		"os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)", "TestNothingIsWrittenBeforeTheTokenIsOnTheDisk")
	fence("a directory by its relative path", "dir.go",
		"filepath.Abs(path) //", "path, error(nil) //", "TestDirectoryOfItsOwn")
	fence("a link that is written through", "dir.go",
		"os.Remove(path + \".new\"); err != nil && !errors.Is(err, fs.ErrNotExist) {\n\t\treturn err\n\t}\n\tf, err := os.OpenFile(path+\".new\", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)",
		"error(nil); err != nil {\n\t\treturn err\n\t}\n\tf, err := os.OpenFile(path+\".new\", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)", "TestLinksAreNotFollowed")
	fence("what was renamed counts as durable", "dir.go",
		"if g.seen == token {", "if true {", "TestNothingIsWrittenBeforeTheTokenIsOnTheDisk")
	fence("any text is a token", "token.go",
		"if err != nil || n == 0 || strings.HasPrefix(s, \"0\") {", "if err != nil || strings.HasPrefix(s, \"-\") {", "FuzzParseToken")
	fence("a request without a token may write", "http.go",
		" && reads(r.Method) {", " {", "TestHTTPRefusals")
	fence("the first of two headers counts", "http.go",
		"\tcase 1:\n", "\tcase 1, 2:\n", "FuzzHeader")
	fence("a handler outside the guard", "http.go",
		"token, func() error {\n\t\t\t\tnext.ServeHTTP(w, r.WithContext(WithToken(r.Context(), token)))\n\t\t\t\treturn nil\n\t\t\t})\n",
		"token, nil)\n\t\t\tif err == nil {\n\t\t\t\tnext.ServeHTTP(w, r.WithContext(WithToken(r.Context(), token)))\n\t\t\t}\n", "TestHTTPPausedHandler")
	fence("the innermost of several leases names the token", "http.go",
		"if outer.Name() != lease.Name() || outer.Token() != lease.Token() {", "if false {", "TestTransportWithinTwoLeases")
	fence("requests of a lease that has ended are sent", "http.go",
		"err := r.Context().Err()", "var err error", "TestTransportSendsNothing")

	database("PostgreSQL takes every token", "sql.go",
		"($1, $2)\n\t\t\tON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE pawl_fence.token <= excluded.token",
		"($1, $2)\n\t\t\tON CONFLICT (resource) DO UPDATE SET token = excluded.token", "TestConcurrentWriters/postgres")
	database("SQLite takes every token", "sql.go",
		"(?, ?)\n\t\t\tON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE pawl_fence.token <= excluded.token",
		"(?, ?)\n\t\t\tON CONFLICT (resource) DO UPDATE SET token = excluded.token", "TestConcurrentWriters/sqlite")
	database("the check locks nothing", "sql.go",
		"\tresult, err := tx.ExecContext(ctx, install[d], resource, int64(token))\n",
		"\tvar was int64\n\tif tx.QueryRowContext(ctx, look[d], resource).Scan(&was); was > 0 && was <= int64(token) {\n\t\treturn 1, nil\n\t}\n"+
			"\tresult, err := tx.ExecContext(ctx, install[d], resource, int64(token))\n", "TestPausedTransaction/postgres")

	redis("any text is a token in a script", "lua/fence.lua",
		"if not string.match(token,", "if false and not string.match(token,", "TestNoToken")
	redis("tokens compared as numbers of Lua", "lua/fence.lua",
		"#seen > #token or #seen == #token and seen > token", "tonumber(seen) > tonumber(token)", "TestSet")
	redis("tokens compared as text", "lua/fence.lua",
		"#seen > #token or #seen == #token and seen > token", "seen > token", "TestSet")
	redis("a guard key that holds something else", "lua/fence.lua",
		"if not string.match(seen, '^[1-9]%d*$') then", "if false then", "TestRefusals")
	redis("a token that is not raised", "lua/fence.lua",
		"if seen ~= token then", "if false then", "TestInstall")
	redis("a guard in another hash slot", "redisfence.go",
		"return \"fence:{\" + key + \"}\", nil", "return key + \":fence\", nil", "TestCluster")
}
