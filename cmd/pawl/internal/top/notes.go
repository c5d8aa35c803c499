// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fmt"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// topNote is a line above the table.
type topNote struct {
	text  string
	level level
}

// notes returns the lines about the stores.
func (t *top) notes(now time.Time) (notes []topNote) {
	for i, s := range t.stores {
		number := ""
		if len(t.stores) > 1 {
			number = fmt.Sprintf("%d  %s", i+1, s.Name)
		}
		if n := s.note(number, now); n.text != "" {
			notes = append(notes, n)
		}
	}
	for _, s := range t.stores {
		if often := s.changing(); often != "" {
			notes = append(notes, topNote{text: often})
		}
		if s.slow != "" {
			notes = append(notes, topNote{text: display.Printable(s.Name) + ": " + s.slow, level: doubtful})
		}
		for _, cycle := range s.Deadlocks {
			notes = append(notes, topNote{text: deadlock(cycle), level: wrong})
		}
	}
	return notes
}

// note returns the line about the state of a store. number is the store's number and name if there are
// several stores. If there is only one, number is empty, and so is the text when all is well.
func (s *topStore) note(number string, now time.Time) topNote {
	name := cmp.Or(number, s.Name)
	switch {
	case exit.Unread(s.failed):
		return topNote{display.Printable(name + " cannot be read in full: " + exit.Plain(s.failed)), wrong}
	case s.failed != nil:
		text := "does not answer"
		if !s.Asked.IsZero() {
			text += " since " + s.Asked.Local().Format(time.TimeOnly)
		}
		return topNote{display.Printable(name + " " + text + ": " + exit.Plain(s.failed)), wrong}
	case s.State.Shut() != "" && s.State.Until.After(now):
		if number != "" {
			number += ": "
		}
		return topNote{text: number + stores.Closed(s.State), level: doubtful}
	}
	return topNote{text: display.Printable(number)}
}

// changing returns a text with the locks that change hands often, or "".
func (s *topStore) changing() string {
	var often []string
	for name, n := range s.Changing() {
		often = append(often, fmt.Sprintf("%s (%s)", name, changing(n)))
	}
	if len(often) == 0 {
		return ""
	}
	slices.Sort(often)
	return display.Printable("changes hands often: " + strings.Join(often, ", "))
}

// deadlock returns a text that says who waits for whom in a deadlock.
func deadlock(cycle []pawl.Blocked) string {
	text := "deadlock: "
	for _, e := range cycle {
		text += fmt.Sprintf("%s (%s) → ", e.Name, shortPerson(e.By.Holder))
	}
	return display.Printable(text + cycle[0].Name)
}
