// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/driver"
)

func (a *app) maxTTLCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "max-ttl [DURATION]",
		Short: "Show or change the longest --ttl that Redis or PostgreSQL allows",
		Long: `Show or change the longest --ttl that Redis or PostgreSQL allows, which is 30s
unless changed. For so long it grants nothing after it has lost its data, as it
may have forgotten a lock; so all programs that use the store have to know it.
They find it there. After a loss of data it is not there any more: so each
program whose URL says less (?max_ttl=; 30s without) is refused from the
beginning.

To raise it: first give all programs the new value, with ?max_ttl= in the URL
of the store, in any order, at any time; then say it here. Programs that run go
along.
To lower it: say it here, then change the URLs. Leases with a longer --ttl are
renewed no more, and waited for until they have ended.`,
		Example: `  pawl max-ttl -s redis://localhost
  pawl max-ttl -s redis://localhost 5m`,
		Args: args(0, 1, "try: pawl max-ttl -s redis://HOST 5m"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.showMaxTTL(cmd.Context())
			}
			if what, write := likeStore(args[0]); what != "" {
				return usage("an argument is the "+what, "name it with: pawl max-ttl "+write+" 5m")
			}
			ttl, err := parseDuration(args[0])
			if err != nil || ttl < driver.MinTTL {
				return usage(fmt.Sprintf("%q is no duration that a lease can have", shorten(args[0], 40)), "try: pawl max-ttl -s redis://HOST 5m")
			}
			return a.setMaxTTL(ttl)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// maxTTLJSON is what max-ttl prints.
type maxTTLJSON struct {
	Schema int           `json:"schema"`
	Store  string        `json:"store"`
	State  *report.State `json:"state"`
}

func (a *app) setMaxTTL(ttl time.Duration) error {
	u, err := reach(a.store, a.connect, func(ctx context.Context, u *storeURL) error {
		if maxTTLs[u.scheme] == nil {
			return noMaxTTL(u)
		}
		return maxTTLs[u.scheme](ctx, u, ttl)
	})
	if err != nil {
		return err
	}
	if u.refused(ttl) {
		slog.New(warnings{a.stderr}).Warn(fmt.Sprintf("programs without ?max_ttl=%v in their URL are refused from now on, and it is not in this one; those that run go along", ttl))
	}
	return a.showMaxTTL(context.Background())
}

// refused reports whether programs with this URL are refused where the longest TTL is longest: they
// would not wait for all leases when the store has lost it. PostgreSQL does not lose it.
func (s *storeURL) refused(longest time.Duration) bool {
	own, _ := time.ParseDuration(s.url.Query().Get("max_ttl")) // the store has parsed it before
	return cmp.Or(own, pawl.DefaultTTL) < longest && !strings.HasPrefix(s.scheme, "postgres")
}

func noMaxTTL(u *storeURL) error {
	return fail(exitConfig, fmt.Sprintf("a store of kind %q forgets no leases: it has no longest --ttl", u.scheme), "name another one with --store redis://HOST")
}

func (a *app) showMaxTTL(ctx context.Context) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close()
	if maxTTLs[s.url.scheme] == nil {
		return noMaxTTL(s.url)
	}
	state, err := s.state(ctx)
	if err != nil {
		return err
	}
	return a.print(maxTTLJSON{schema, s.url.String(), state}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, limit(state))
		return err
	})
}

// state asks the store how it is. It is nil where that has no meaning.
func (s *store) state(ctx context.Context) (*report.State, error) {
	info, err := s.Store(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case err != nil:
		return nil, storeFailure(err, s.url.String())
	}
	return report.StateOf(info), nil
}

// limit says what the longest --ttl is.
func limit(s *report.State) string {
	switch {
	case s.MaxTTL == "":
		return "nobody has used the store yet: the first program sets the longest --ttl, to 30s unless its URL says ?max_ttl="
	case s.SetBy == nil:
		return "the longest --ttl is " + s.MaxTTL
	}
	return fmt.Sprintf("the longest --ttl is %s, set by %s", s.MaxTTL, s.SetBy)
}

// closed says why nothing is granted.
func closed(s *report.State) string {
	return printable(fmt.Sprintf("pawl: the store grants nothing for %s, until %s: %s; %s", s.Closed, s.Until.Local().Format(time.TimeOnly), s.Why, limit(s)))
}
