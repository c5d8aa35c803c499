// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
)

// complete completes the line of a command that parses its flags itself.
func complete(a *cli.App, verb string, args []string, word string) ([]string, cobra.ShellCompDirective) {
	r := newArgs(verb)
	fs := newRunFlags(r)
	words, pending := runWords(fs, args)
	if pending != nil {
		if pending.Name == "events" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	switch {
	case len(words) < 2 && strings.HasPrefix(word, "-"):
		return flagWords(fs, word), cobra.ShellCompDirectiveNoFileComp
	case len(words) == 0:
		a.Store = r.Store
		return a.Names(word), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault // the command and its files
}

// runWords returns the words of args that are no flags, at most name and "--"
// or the command's first, and the flag whose value comes next, if one does.
func runWords(fs *pflag.FlagSet, args []string) (words []string, pending *pflag.Flag) {
	for i := 0; i < len(args) && len(words) < 2; i++ {
		arg := args[i]
		if arg == "--" || !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
			continue
		}
		flag := lookup(fs, arg)
		if flag == nil || flag.NoOptDefVal != "" || strings.Contains(arg, "=") {
			continue
		}
		if i++; i == len(args) {
			return words, flag
		}
		_ = flag.Value.Set(args[i])
	}
	return words, nil
}

func lookup(fs *pflag.FlagSet, arg string) *pflag.Flag {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		return fs.Lookup(name)
	}
	if len(arg) == 2 {
		return fs.ShorthandLookup(arg[1:])
	}
	return nil
}

func flagWords(fs *pflag.FlagSet, prefix string) []string {
	var words []string
	fs.VisitAll(func(f *pflag.Flag) {
		if long := "--" + f.Name; strings.HasPrefix(long, prefix) {
			_, text := pflag.UnquoteUsage(f)
			words = append(words, long+"\t"+text)
		}
	})
	return words
}
