// SPDX-License-Identifier: Apache-2.0

// Package cli has what the commands share: global flags, opening the store, printing text or JSON.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// App holds the global flags, the output, and how the command ended.
type App struct {
	Stdout, Stderr io.Writer
	Store          string // --store
	Connect        time.Duration
	JSON           bool // --json
	Code           int  // exit code of a command that did not fail
	Interrupted    bool // INT ended the command
	Keyboard       bool // Ctrl-C ended the command and reached no other process
}

func (a *App) JSONFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print JSON")
}

// Open opens the store for a command other than "run".
func (a *App) Open() (*stores.Store, error) {
	return stores.Open(a.Store, a.Connect, &pawl.Options{}, false)
}

func ConnectFlag(fs *pflag.FlagSet, d *time.Duration) {
	DurationVar(fs, d, "connect-timeout", 5*time.Second, "give up connecting to a server after this `DURATION`")
}

// NoStore refuses --store and --connect-timeout for a command that uses no store.
func NoStore(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"store", "connect-timeout"} {
		if cmd.Flags().Changed(name) {
			return exit.Usage(cmd.CommandPath()+" uses no store", "remove --"+name)
		}
	}
	return nil
}

// Print prints v as JSON with --json, and calls text otherwise.
func (a *App) Print(v any, text func(io.Writer) error) error {
	if !a.JSON {
		return text(a.Stdout)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, string(b))
	return err
}

// Args returns a check that a command has low to high arguments.
func Args(low, high int, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low {
			return exit.Usage("an argument is missing", hint)
		}
		if len(args) > high {
			if what, write := stores.LikeStore(args[high]); what != "" {
				return exit.Usage("the argument looks like the "+what, "use: "+cmd.CommandPath()+" "+write)
			}
			return exit.Usage(fmt.Sprintf("unexpected argument %q", display.Shorten(args[high], 40)), hint)
		}
		return nil
	}
}

// Prefix returns the prefix of the names to list: the argument, or "" without one.
func Prefix(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if what, write := stores.LikeStore(args[0]); what != "" && !cmd.Flags().Changed("store") {
		return "", exit.Usage("the argument looks like the "+what, "use: "+cmd.CommandPath()+" "+write)
	}
	return args[0], nil
}

// CompleteName completes the name of a lock with the names in use.
func (a *App) CompleteName(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(word), cobra.ShellCompDirectiveNoFileComp
}

func (a *App) names(prefix string) (names []string) {
	// The user's shell waits for the answer, so it has to come soon.
	a.Connect = time.Second
	s, err := a.Open()
	if err != nil {
		return nil
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	infos, err := s.List(ctx, prefix)
	if err != nil {
		return nil
	}
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// Sources returns a source for each of urls. It opens each store once, to find mistakes in the URLs. A store that is
// unavailable is not an error, because it may come back.
func (a *App) Sources(urls []string) ([]*history.Source, error) {
	if len(urls) == 0 {
		urls = []string{""}
	}
	var all []*history.Source
	for _, url := range urls {
		open := func() (*stores.Store, error) { return stores.Open(url, a.Connect, &pawl.Options{}, false) }
		u, err := stores.Chosen(url)
		if err != nil {
			return nil, err
		}
		source := &history.Source{Open: func() (*pawl.Client, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			return s.Client, nil
		}}
		s, err := open()
		switch {
		case err == nil:
			source.Use(s.Client)
			u = s.URL // it names the default directory, if the store is that
		case exit.As(err).Code != exit.Unavailable:
			return nil, err
		}
		source.Name = u.String()
		if slices.ContainsFunc(all, func(other *history.Source) bool { return other.Name == source.Name }) {
			return nil, exit.Usage("--store names "+source.Name+" twice", "leave one out")
		}
		all = append(all, source)
	}
	return all, nil
}
