// SPDX-License-Identifier: Apache-2.0

package main

import (
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

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
	store          string // --store
	connect        time.Duration
	JSON           bool // --json
	code           int  // exit code of a command that did not fail
	interrupted    bool // it was ended by INT
	keyboard       bool // by Ctrl-C that reached nobody else
}

func (a *app) JSONFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print JSON")
}

// open opens the store of a command that is not "run".
func (a *app) open() (*stores.Store, error) {
	return stores.Open(a.store, a.connect, &pawl.Options{}, false)
}

func connectFlag(fs *pflag.FlagSet, d *time.Duration) {
	durationVar(fs, d, "connect-timeout", 5*time.Second, "connect to a server for at most this `DURATION`")
}

// noStore refuses flags of the store before a command that asks none.
func noStore(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"store", "connect-timeout"} {
		if cmd.Flags().Changed(name) {
			return exit.Usage(cmd.CommandPath()+" asks no store", "leave --"+name+" out")
		}
	}
	return nil
}

// print prints v as JSON, or else calls text.
func (a *app) print(v any, text func(io.Writer) error) error {
	if !a.JSON {
		return text(a.stdout)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, string(b))
	return err
}

// args checks the number of a command's arguments.
func args(low, high int, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low {
			return exit.Usage("an argument is missing", hint)
		}
		if len(args) > high {
			if what, write := stores.LikeStore(args[high]); what != "" {
				return exit.Usage("an argument is the "+what, "name it with: "+cmd.CommandPath()+" "+write)
			}
			return exit.Usage(fmt.Sprintf("unexpected argument %q", display.Shorten(args[high], 40)), hint)
		}
		return nil
	}
}
