// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// change is an event of "pawl watch". It obeys the rule for schema.
type change struct {
	Schema  int           `json:"schema"`
	Time    time.Time     `json:"time"`  // when pawl saw it
	Event   string        `json:"event"` // as in watchHelp
	Store   string        `json:"store"`
	Name    string        `json:"name,omitempty"` // empty: the event is about the store
	Holder  *pawl.Held    `json:"holder,omitempty"`
	Waiter  *pawl.Waiter  `json:"waiter,omitempty"`  // granted: the holder as a waiter, if pawl saw it wait
	Seconds float64       `json:"seconds,omitempty"` // how long it lasted, as far as pawl saw it
	State   *report.State `json:"state,omitempty"`   // closed
	Error   string        `json:"error,omitempty"`   // silent, unread: why

	said string // silent, unread: the error for people
}

// eventOrder is the order of the events of one look, for example: released before granted.
var eventOrder = strings.Fields("silent unread answers closed open released expired ended held granted overdue renewed left waiting")

func inOrder(a, b change) int {
	rank := func(c change) int { return slices.Index(eventOrder, c.Event) }
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.token(), b.token()), a.since().Compare(b.since()))
}

func (c *change) token() uint64 {
	if c.Holder == nil {
		return 0
	}
	return uint64(c.Holder.Token)
}

func (c *change) since() time.Time {
	if c.Waiter == nil {
		return time.Time{}
	}
	return c.Waiter.Since
}

// tell prints an event.
func (w *watching) tell(c change) error {
	if !w.JSON {
		_, err := fmt.Fprintln(w.Stdout, c.line(display.Columns(w.Stdout)))
		return err
	}
	enc := json.NewEncoder(w.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(c)
}

// line returns the event in one line. If width is not 0, the line has at most width characters: line
// leaves out the token first, then the end of the person, then the end of the line.
func (c *change) line(width int) string {
	line := func(person, token string) string {
		return display.Printable(fmt.Sprintf("%s  %-8s  %s%s", c.Time.Local().Format(time.TimeOnly), c.Event, c.text(person), token))
	}
	person, token := c.person(), ""
	if n := c.token(); n != 0 {
		token = fmt.Sprintf(", token %d", n)
	}
	full := line(person, token)
	if width == 0 || utf8.RuneCountInString(full) <= width {
		return full
	}
	over := max(utf8.RuneCountInString(line(person, ""))-width, 0)
	return display.Cut(line(display.Cut(person, max(utf8.RuneCountInString(person)-over, display.CellLeast)), ""), width)
}

func (c *change) person() string {
	switch {
	case c.Holder != nil:
		return c.Holder.String()
	case c.Waiter != nil:
		return c.Waiter.String()
	}
	return ""
}

func (c *change) text(person string) string {
	lasted := "less than 1s"
	if d := time.Duration(c.Seconds * float64(time.Second)).Truncate(time.Second); d > 0 {
		lasted = d.String()
	}
	switch c.Event {
	case "silent", "unread":
		return c.said
	case "answers":
		return fmt.Sprintf("%s answers again, after %s", c.Store, lasted)
	case "closed":
		return c.Store + " " + c.State.Shut()
	case "open":
		return fmt.Sprintf("%s grants leases again, after %s", c.Store, lasted)
	case "waiting", "left":
		return c.Name + "  " + person + c.wait(lasted)
	}
	return c.Name + "  " + person + c.lease(lasted)
}

// wait returns the text about a wait. It follows the person.
func (c *change) wait(lasted string) string {
	text := kindOf(c.Waiter.Shared, c.Waiter.Slots)
	switch {
	case c.Event == "left":
		return text + ", after " + lasted
	case c.Seconds > 0:
		text += ", for " + lasted
	}
	return text + because(c.Waiter.Why)
}

// lease returns the text about a lease. It follows the person.
func (c *change) lease(lasted string) string {
	h := c.Holder
	text := kindOf(h.Shared, h.Slots)
	left := h.Expires.Sub(c.Time)
	switch {
	case c.Event == "released", c.Event == "expired":
		text += ", held for " + lasted
	case c.Event == "ended":
		text += ", held for at most " + lasted
	case c.Event == "overdue" && left > 0:
		text += fmt.Sprintf(", ends in %v", display.InSeconds(left))
	case c.Event == "held":
		text += ", for " + lasted + because(h.Why)
	case c.Event == "granted" && c.Seconds > 0:
		text += ", waited " + lasted + because(h.Why)
	case c.Event == "granted":
		text += because(h.Why)
	}
	return text
}

func kindOf(shared bool, slots int) string {
	if kind := display.Kind(shared, slots); kind != "" {
		return ", " + kind
	}
	return ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (why: " + why + ")"
}
