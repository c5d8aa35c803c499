// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// State asks the store for its state. It returns nil for a store that has no MaxTTL and no quarantine.
func (s *Store) State(ctx context.Context) (*report.State, error) {
	info, err := s.Store(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case err != nil:
		return nil, exit.OfStore(err, s.URL.String())
	}
	return report.StateOf(info), nil
}

// Limit returns a text about the longest --ttl of the store.
func Limit(s *report.State) string {
	switch {
	case s.MaxTTL == "":
		return "nobody has used the store yet: the first program sets the longest --ttl, to 30s unless its URL says ?max_ttl="
	case s.SetBy == nil:
		return "the longest --ttl is " + s.MaxTTL
	}
	return fmt.Sprintf("the longest --ttl is %s, set by %s", s.MaxTTL, s.SetBy)
}

// Closed returns a text that says why the store grants nothing, and until when, or "" if it grants leases.
func Closed(s *report.State) string {
	if s.Shut() == "" {
		return ""
	}
	return display.Printable("the store " + s.Shut() + "; " + Limit(s))
}

// Refused reports whether a store whose longest TTL is longest refuses programs with this URL. If the
// store lost its data and with it the longest TTL, such programs would begin before all leases have
// ended. PostgreSQL does not lose the setting, so it refuses no program.
func (s *URL) Refused(longest time.Duration) bool {
	own, _ := time.ParseDuration(s.url.Query().Get("max_ttl")) // no error: opening the store has parsed it
	return cmp.Or(own, pawl.DefaultTTL) < longest && !strings.HasPrefix(s.Scheme, "postgres")
}
