// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
)

// unread returns an event for each name that has become unreadable.
func (w *watching) unread(look *history.Look) (all []change) {
	damaged, only := driver.Unread(look.Err)
	if look.Err != nil && !only {
		return nil // this look says nothing about any record
	}
	var names []string
	for _, e := range damaged {
		names = append(names, e.Name)
		if w.wants(e.Name) && !slices.Contains(w.damaged, e.Name) {
			text := strings.TrimPrefix(exit.Plain(e), pawl.ErrUnavailable.Error()+": ")
			all = append(all, change{Event: "unread", Name: e.Name, Error: text, said: e.Name + "  " + text})
		}
	}
	w.damaged = names
	return all
}

// silence returns the event that the store does not answer, or that it answers again, or nothing.
func (w *watching) silence(look *history.Look, began time.Time) []change {
	n := waiting.Notice{Began: began}
	if !look.Answered() {
		n.Failed = look.Err
	}
	if !w.out.Told(&n, look.At) {
		return nil
	}
	if n.Failed == nil {
		return []change{{Event: "answers", Seconds: n.Back.Seconds()}}
	}
	c := change{Event: "silent", Seconds: n.Away.Seconds(), Error: exit.Plain(n.Failed), said: exit.Plain(n.Failed)}
	if errors.Is(n.Failed, pawl.ErrUnavailable) || errors.Is(n.Failed, context.DeadlineExceeded) {
		c.said = n.Silence(w.store.URL)
	}
	return []change{c}
}
