// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Words of other tools for what pawl has under another name.
var (
	otherCommands = map[string]string{
		"list": "ls", "status": "show", "info": "show", "unlock": "break", "extend": "renew", "refresh": "renew", "lock": "run", "exec": "run", "cron": "once", "lease": "acquire",
		"events": "watch", "follow": "watch", "monitor": "top", "htop": "top",
	}
	otherFlags = map[string]string{
		"timeout": "wait", "nonblock": "no-wait", "nb": "no-wait", "conflict-exit-code": "busy-code", "holders": "slots", "reason": "why",
	}
	otherSchemes = map[string]string{"valkey": "redis", "valkeys": "rediss", "zookeeper": "zk", "pg": "postgres", "psql": "postgres", "pgsql": "postgres", "jdbc": "postgres", "dir": "file"}
)

// unknownCommand is the mistake of typing a command that there is not.
func unknownCommand(root *cobra.Command, word string) *failure {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := "try: pawl --help"
	if meant := nearest(word, names, otherCommands); meant != "" {
		hint = "did you mean pawl " + meant + "? " + hint
	}
	return usage(fmt.Sprintf("unknown command %q for \"pawl\"", shorten(word, 40)), hint)
}

// likeFlag asks whether a flag was meant that is like the one that err calls unknown, or returns "".
func likeFlag(err error, fs *pflag.FlagSet) string {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if meant := nearest(missing.GetSpecifiedName(), names, otherFlags); meant != "" {
		return "did you mean --" + meant + "? "
	}
	return ""
}

// nearest returns which of names was likely meant by word, or "". others has words
// for some of them that are not like them.
func nearest(word string, names []string, others map[string]string) string {
	if name := others[word]; slices.Contains(names, name) {
		return name
	}
	best, fewest := "", 2+len(word)/5 // a slip in a short word, two in a longer one
	for _, name := range names {
		if n := slips(word, name); n < fewest {
			best, fewest = name, n
		}
	}
	return best
}

// slips returns how many letters have to be put in, left out, replaced, or swapped with the
// next to make b of a.
func slips(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // no word that somebody typed
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
				}
			}
		}
	}
	return rows[len(a)][len(b)]
}
