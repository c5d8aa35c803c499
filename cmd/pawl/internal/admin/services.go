// SPDX-License-Identifier: Apache-2.0

// Package admin has the commands for operators: break, bless, max-ttl and nodes.
package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
	"github.com/pawl-go/pawl/redislock/redlock"
)

// service is what operators do at a store that may forget leases.
type service struct {
	bless  func(ctx context.Context, url string) error // ends the quarantine
	maxTTL func(ctx context.Context, url string, ttl time.Duration) error
}

var redis = service{
	func(ctx context.Context, url string) error {
		return redislock.Bless(ctx, url, stores.RedisOptions(ctx))
	},
	func(ctx context.Context, url string, ttl time.Duration) error {
		return redislock.SetMaxTTL(ctx, url, ttl, stores.RedisOptions(ctx))
	},
}

// services has the stores that may forget leases, by the scheme of the URL.
var services = map[string]service{"redis": redis, "rediss": redis, "unix": redis, "redlock": {
	func(ctx context.Context, url string) error { return redlock.Bless(ctx, url, redlockOptions(ctx)) },
	func(ctx context.Context, url string, ttl time.Duration) error {
		return redlock.SetMaxTTL(ctx, url, ttl, redlockOptions(ctx))
	},
}}

// storeFlag adds --store to a command that works on some stores only. It hides that of all commands.
func storeFlag(a *cli.App, cmd *cobra.Command, which string) {
	cli.StoreVar(cmd.Flags(), &a.Store, "`URL` of a "+which+" store (default $PAWL_STORE)")
}

// forgetful are the stores in services.
const forgetful = "Redis, redlock or PostgreSQL"

func redlockOptions(ctx context.Context) *redlock.Options {
	return &redlock.Options{Options: *stores.RedisOptions(ctx)}
}

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

func maxTTLCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "max-ttl [DURATION]",
		Short: "Show or set the longest --ttl of a store",
		Long: `Max-ttl shows or sets the longest --ttl that a Redis, redlock or PostgreSQL
store allows, 30s unless set. A server that has lost its data grants nothing for
so long, because it may have forgotten a lock. Redis loses the setting too, so
programs have to know it: one whose URL has a smaller ?max_ttl= (30s without) is
refused when it starts.

To raise it, first put ?max_ttl= into the URL of every program, in any order and
at any time; then set it here. Running programs follow.
To lower it, set it here, then change the URLs. Leases with a longer --ttl are
not renewed any more, and the store waits until they have ended.`,
		Example: `  pawl max-ttl -s redis://localhost
  pawl max-ttl -s redis://localhost 5m`,
		Args: cli.Args(0, 1, "try: pawl max-ttl -s redis://HOST 5m"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return showMaxTTL(a, cmd.Context())
			}
			if what, write := stores.LikeStore(args[0]); what != "" {
				return exit.Usage("the argument looks like the "+what, "use: pawl max-ttl "+write+" 5m")
			}
			ttl, err := cli.ParseDuration(args[0])
			if err != nil || ttl < driver.MinTTL {
				return exit.Usage(fmt.Sprintf("%q is not a TTL", display.Shorten(args[0], 40)), "try: pawl max-ttl -s redis://HOST 5m")
			}
			return setMaxTTL(a, ttl)
		},
	}
	storeFlag(a, cmd, forgetful)
	a.JSONFlag(cmd)
	return cmd
}

// maxTTLJSON is the output of max-ttl --json.
type maxTTLJSON struct {
	Schema int           `json:"schema"`
	Store  string        `json:"store"`
	State  *report.State `json:"state"`
}

func setMaxTTL(a *cli.App, ttl time.Duration) error {
	u, err := stores.Reach(a.Store, a.Connect, func(ctx context.Context, u *stores.URL) error {
		of, ok := services[u.Scheme]
		if !ok {
			return noMaxTTL(u)
		}
		return of.maxTTL(ctx, u.Secret(), ttl)
	})
	if err != nil {
		return err
	}
	if u.Refused(ttl) {
		fmt.Fprintln(a.Stderr, display.Printable(fmt.Sprintf("pawl: warning: from now on, programs whose URL lacks ?max_ttl=%v are refused when they start, and this URL lacks it; running programs adopt it", ttl)))
	}
	return showMaxTTL(a, context.Background())
}

func noMaxTTL(u *stores.URL) error {
	return exit.Fail(exit.Config, fmt.Sprintf("a store of kind %q forgets no leases, so it has no longest --ttl", u.Scheme), "name another one with --store redis://HOST")
}

func showMaxTTL(a *cli.App, ctx context.Context) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	if _, ok := services[s.URL.Scheme]; !ok {
		return noMaxTTL(s.URL)
	}
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	return a.Print(maxTTLJSON{report.Schema, s.URL.String(), state}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, stores.Limit(state))
		return err
	})
}
