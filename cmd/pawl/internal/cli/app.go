// SPDX-License-Identifier: Apache-2.0

// Package cli is what the commands share: global flags, opening the store, printing text or JSON.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// App is what the commands share.
type App struct {
	Stdout, Stderr io.Writer
	Store          string // --store
	Connect        time.Duration
	JSON           bool // --json
	Code           int  // exit code of a command that did not fail
	Interrupted    bool // it was ended by INT
	Keyboard       bool // by Ctrl-C that reached nobody else
}

func (a *App) JSONFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print JSON")
}

// Open opens the store of a command that is not "run".
func (a *App) Open() (*stores.Store, error) {
	return stores.Open(a.Store, a.Connect, &pawl.Options{}, false)
}

func ConnectFlag(fs *pflag.FlagSet, d *time.Duration) {
	DurationVar(fs, d, "connect-timeout", 5*time.Second, "give up connecting to a server after this `DURATION`")
}

// NoStore refuses flags of the store before a command that asks none.
func NoStore(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"store", "connect-timeout"} {
		if cmd.Flags().Changed(name) {
			return exit.Usage(cmd.CommandPath()+" uses no store", "remove --"+name)
		}
	}
	return nil
}

// Print prints v as JSON, or else calls text.
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

// Args checks the number of a command's arguments.
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

// Prefix returns what the names of the locks have to begin with: the argument, if there is one.
func Prefix(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if what, write := stores.LikeStore(args[0]); what != "" && !cmd.Flags().Changed("store") {
		return "", exit.Usage("the argument looks like the "+what, "use: "+cmd.CommandPath()+" "+write)
	}
	return args[0], nil
}

// CompleteName completes the name of a lock with those in use.
func (a *App) CompleteName(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.Names(word), cobra.ShellCompDirectiveNoFileComp
}

func (a *App) Names(prefix string) []string {
	// A shell waits for the answer.
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
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}
