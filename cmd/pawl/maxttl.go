// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func (a *app) maxTTLCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "max-ttl [DURATION]",
		Short: "Show or change the longest --ttl that a Redis store allows",
		Long: `Show or change the longest --ttl that a Redis store allows, which is 30s unless
changed. For so long it grants nothing after it has lost its data, as it may have
forgotten a lock; so all programs that use the store have to know it. They find it
there. After a loss of data it is not there any more: so each program whose URL says
less (?max_ttl=; 30s without) is refused from the beginning.

To raise it: first give all programs the new value, with ?max_ttl= in the URL of the
store, in any order, at any time; then say it here. Programs that run go along.
To lower it: say it here, then change the URLs. Leases with a longer --ttl are
renewed no more, and waited for until they have ended.`,
		Example: `  pawl max-ttl -s redis://localhost
  pawl max-ttl -s redis://localhost 5m`,
		Args: args(0, 1, "try: pawl max-ttl 5m"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.showMaxTTL(cmd.Context())
			}
			ttl, err := time.ParseDuration(args[0])
			if err != nil || ttl < driver.MinTTL {
				return usage(fmt.Sprintf("%q is no duration that a lease can have", shorten(args[0], 40)), "try: pawl max-ttl 5m")
			}
			return a.setMaxTTL(ttl)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// maxTTLJSON is what max-ttl prints.
type maxTTLJSON struct {
	Schema int        `json:"schema"`
	Store  string     `json:"store"`
	State  *stateJSON `json:"state"`
}

func (a *app) setMaxTTL(ttl time.Duration) error {
	_, err := reach(a.store, a.connect, func(ctx context.Context, u *storeURL) error {
		if maxTTLs[u.scheme] == nil {
			return noMaxTTL(u)
		}
		return maxTTLs[u.scheme](ctx, u, ttl)
	})
	if err != nil {
		return err
	}
	return a.showMaxTTL(context.Background())
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
		_, err := fmt.Fprintln(w, state.limit())
		return err
	})
}

// stateJSON is how a store is.
type stateJSON struct {
	MaxTTL string      `json:"max_ttl,omitempty"` // empty: nobody has set it
	SetBy  *personJSON `json:"max_ttl_set_by,omitempty"`
	Closed string      `json:"closed,omitempty"` // for so long it grants nothing
	Until  time.Time   `json:"closed_until,omitzero"`
	Why    string      `json:"closed_because,omitempty"`

	by string
}

// state asks the store how it is. It is nil where that has no meaning.
func (s *store) state(ctx context.Context) (*stateJSON, error) {
	info, err := s.Store(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case err != nil:
		return nil, storeFailure(err, s.url.String())
	}
	return stateOf(info), nil
}

func stateOf(info *pawl.StoreInfo) *stateJSON {
	out := &stateJSON{Why: info.Why}
	if info.MaxTTL != 0 {
		out.MaxTTL = info.MaxTTL.String()
	}
	if info.SetBy != nil {
		p := person(*info.SetBy, "")
		out.SetBy, out.by = &p, info.SetBy.String()
	}
	if info.Closed > 0 {
		left := max(info.Closed.Round(time.Second), time.Second)
		out.Closed, out.Until = left.String(), time.Now().Add(left)
	}
	return out
}

// limit says what the longest --ttl is.
func (s *stateJSON) limit() string {
	switch {
	case s.MaxTTL == "":
		return "nobody has used the store yet: the first program sets the longest --ttl, to 30s unless its URL says ?max_ttl="
	case s.by == "":
		return "the longest --ttl is " + s.MaxTTL
	}
	return fmt.Sprintf("the longest --ttl is %s, set by %s", s.MaxTTL, s.by)
}

// line says why nothing is granted.
func (s *stateJSON) line() string {
	return printable(fmt.Sprintf("pawl: the store grants nothing for %s, until %s: %s; %s", s.Closed, s.Until.Local().Format(time.TimeOnly), s.Why, s.limit()))
}
