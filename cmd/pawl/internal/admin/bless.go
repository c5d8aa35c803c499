// SPDX-License-Identifier: Apache-2.0

// Package admin has the commands for operators: break, bless, max-ttl and nodes.
package admin

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// Commands returns break, bless, max-ttl and nodes.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{breakCommand(a), blessCommand(a), maxTTLCommand(a), nodesCommand(a)}
}

func blessCommand(a *cli.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "bless --yes",
		Short: "End the quarantine of a server",
		Long: `Bless ends the quarantine of a server. A server that has just started, lost its
data, or taken over from another one grants nothing for the longest --ttl in
use, until all leases have ended that it may have forgotten.

Say --yes only if nobody can hold such a lease: the server is new, or every
program that held a lock has ended. Otherwise two can hold the same lock.

If the URL has ?max_ttl=, that becomes the longest --ttl of the store: see pawl
max-ttl --help.`,
		Example: `  pawl bless --store redis://localhost:6379 --yes`,
		Args:    cli.Args(0, 0, "try: pawl bless --store redis://localhost:6379 --yes"),
		RunE:    func(*cobra.Command, []string) error { return bless(a, yes) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm that nobody holds a lease that the server may have forgotten (required)")
	storeFlag(a, cmd, forgetful)
	a.JSONFlag(cmd)
	return cmd
}

// blessJSON is the output of bless --json.
type blessJSON struct {
	Schema int    `json:"schema"`
	Store  string `json:"store"`
}

func bless(a *cli.App, yes bool) error {
	u, err := stores.Reach(a.Store, a.Connect, func(ctx context.Context, u *stores.URL) error {
		of, ok := services[u.Scheme]
		switch {
		case !ok:
			return exit.Fail(exit.Config, fmt.Sprintf("a store of kind %q forgets no leases, so it needs no bless", u.Scheme),
				"name another one with --store redis://HOST")
		case !yes:
			return exit.Usage("--yes is missing: if a program still holds a lease that the server has forgotten, two will hold the same lock",
				"add --yes if you know that no program holds one; see pawl bless --help")
		}
		return of.bless(ctx, u.Secret())
	})
	if err != nil {
		return err
	}
	return a.Print(blessJSON{report.Schema, u.String()}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s grants leases from now on\n", u)
		return err
	})
}
