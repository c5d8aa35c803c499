// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/history"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
)

// unread returns an event for each name that has become unreadable.
func (w *watching) unread(look *history.Look) (all []change) {
	if !look.Answered() {
		return nil // nothing is known of any
	}
	names, _ := driver.Unread(look.Err)
	for _, name := range names {
		if !w.wants(name) || slices.Contains(w.damaged, name) {
			continue
		}
		text := strings.TrimPrefix(exit.Plain(unreadOf(look.Err, name)), pawl.ErrUnavailable.Error()+": ")
		all = append(all, change{Event: "unread", Name: name, Error: text, said: name + "  " + text})
	}
	w.damaged = names
	return all
}

// unreadOf returns the driver.UnreadError for name in err, or nil.
func unreadOf(err error, name string) error {
	switch e := err.(type) {
	case *driver.UnreadError:
		if e.Name == name {
			return e
		}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if of := unreadOf(err, name); of != nil {
				return of
			}
		}
	case interface{ Unwrap() error }:
		return unreadOf(e.Unwrap(), name)
	}
	return nil
}

// silence returns the event that the store does not answer, or answers again.
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
