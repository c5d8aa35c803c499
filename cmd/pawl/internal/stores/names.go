// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/suggest"
)

// Meant returns the name that is held and most like one that nobody holds, or "".
func (s *Store) Meant(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	infos, _ := s.List(ctx, "") // without it there is no name to propose
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return suggest.Nearest(name, names, nil)
}

// Misspelt says on w which name may be meant, if nobody has had the lock of the name lately.
func (s *Store) Misspelt(ctx context.Context, w io.Writer, info *pawl.Info) {
	if info.Token != 0 || len(info.Holders)+len(info.Waiters) > 0 {
		return
	}
	if meant := s.Meant(ctx, info.Name); meant != "" {
		fmt.Fprintf(w, "pawl: nobody has had %q lately: did you mean %s?\n", display.Printable(info.Name), display.Quote(meant))
	}
}
