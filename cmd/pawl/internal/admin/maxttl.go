// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/driver"
	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

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
