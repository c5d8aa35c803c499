// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
)

// Basic implements the methods that a Store without a queue, events and inspection lacks. Embed it in a
// Store.
type Basic struct{}

var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Listen implements Store: there are no events.
func (Basic) Listen(func(Event)) {}

// Hear implements Store: no event will arrive.
func (Basic) Hear(string) (<-chan struct{}, func()) { return ready, func() {} }

// Inspect implements Store with errors.ErrUnsupported.
func (Basic) Inspect(context.Context, string) (*Info, error) { return nil, errors.ErrUnsupported }

// List implements Store with errors.ErrUnsupported.
func (Basic) List(context.Context, string) ([]*Info, error) { return nil, errors.ErrUnsupported }

// Break implements Store with errors.ErrUnsupported.
func (Basic) Break(context.Context, string, string, *Holder, string) error {
	return errors.ErrUnsupported
}

// Describe implements Store with errors.ErrUnsupported: clients need not agree on anything.
func (Basic) Describe(context.Context) (*StoreInfo, error) { return nil, errors.ErrUnsupported }

// Examine implements Store: it finds nothing.
func (Basic) Examine(context.Context) []Finding { return nil }

// Close implements Store.
func (Basic) Close() error { return nil }
