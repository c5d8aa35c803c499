// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// lsEvery is how often "pawl ls --watch" lists the locks.
const lsEvery = 2 * time.Second

// watchList lists the locks until the output is closed. A signal ends it.
func watchList(a *cli.App, ctx context.Context, prefix string, order lsOrder) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	for first := true; ; first = false {
		began := time.Now()
		l, err := askWithin(ctx, s, prefix, order)
		if err != nil && first && !l.unread {
			return err
		}
		if err == nil {
			err = l.failed
		}
		took := time.Since(began)
		if err := drawList(a, s, &l, err, first, history.Seldom(took, lsEvery)); err != nil {
			return err
		}
		if f, ok := a.Stdout.(*os.File); ok && display.NobodyReads(f) {
			return nil
		}
		time.Sleep(max(lsEvery, history.Pace(took)) - time.Since(began))
	}
}

func askWithin(ctx context.Context, s *stores.Store, prefix string, order lsOrder) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, history.Patience)
	defer cancel()
	return listAll(ctx, s, prefix, order)
}

// drawList draws the list anew on a terminal, and adds it elsewhere. failed is why some or all of it is
// missing, and slow that it comes seldom.
func drawList(a *cli.App, s *stores.Store, l *listing, failed error, first bool, slow string) error {
	var notes []string
	if slow != "" {
		notes = append(notes, "pawl: "+slow)
	}
	if l.state != nil && l.state.Closed != "" {
		notes = append(notes, stores.Closed(l.state))
	}
	if failed != nil {
		notes = append(notes, exit.As(failed).Line())
	}
	columns, rows := display.SizeOf(a.Stdout)
	var list bytes.Buffer
	if err := printTable(&list, columns, l.infos); err != nil {
		return err
	}
	if rows == 0 || os.Getenv("TERM") == "dumb" {
		for _, note := range notes {
			fmt.Fprintln(a.Stderr, note)
		}
		text := list.String()
		if !first {
			text = "\n" + text
		}
		_, err := io.WriteString(a.Stdout, text)
		return err
	}
	if len(l.infos) == 0 && failed == nil {
		notes = append(notes, "nobody holds a lock or waits for one")
	}
	notes = append([]string{s.URL.String() + "  " + time.Now().Format(time.TimeOnly)}, notes...)
	_, err := io.WriteString(a.Stdout, drawn(notes, list.String(), columns, rows))
	return err
}

const (
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// drawn returns what draws notes and the lines of a table on a terminal, as far as they fit. Nothing is
// cleared that is drawn again, so it does not flicker.
func drawn(notes []string, list string, columns, rows int) string {
	var b strings.Builder
	b.WriteString(home)
	left := rows - 2 // for the line after the last, and for that of how many are missing
	for _, note := range notes {
		b.WriteString(note + clearLine + "\n")
		left -= (utf8.RuneCountInString(note) + columns - 1) / columns
	}
	lines := strings.SplitAfter(list, "\n")
	lines = lines[:len(lines)-1]
	for i, line := range lines {
		if i >= left && i+1 < len(lines) {
			fmt.Fprintf(&b, "… and %d more%s\n", len(lines)-i, clearLine)
			break
		}
		b.WriteString(strings.TrimSuffix(line, "\n") + clearLine + "\n")
	}
	b.WriteString(clearBelow)
	return b.String()
}
