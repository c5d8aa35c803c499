// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-go/pawl"
)

// Tests of how leases end by themselves, or by their owner.
var clientEndTests = []Test{
	{Name: "do-releases-whatever-happens", run: clientDo},
	{Name: "close-of-a-client-frees-its-leases", run: clientClose},
	{Name: "client-lease-without-renewal-ends", run: clientNoRenew},
	{Name: "client-lease-ends-at-its-max-hold", run: clientMaxHold},
}

func clientDo(e *env) {
	c, name := e.client(), e.name("deploy")
	boom := errors.New("boom")
	do := func(f func() error) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = r.(error)
			}
		}()
		return c.Do(e.ctx, name, func(ctx context.Context, l *pawl.Lease) error {
			e.busy(c, name)
			if ctx.Err() != nil || l.Err() != nil {
				e.Errorf("in Do: %v, %v; want nil", ctx.Err(), l.Err())
			}
			return f()
		})
	}
	if err := do(func() error { return nil }); err != nil {
		e.Errorf("Do = %v; want nil", err)
	}
	if err := do(func() error { return boom }); !errors.Is(err, boom) {
		e.Errorf("Do = %v; want %v", err, boom)
	}
	if err := do(func() error { panic(boom) }); !errors.Is(err, boom) {
		e.Errorf("panic in Do = %v; want %v", err, boom)
	}
	e.give(e.get(c, name))
}

func clientClose(e *env) {
	a, b := e.client(), e.client()
	l := e.get(a, e.name("one"))
	e.get(a, e.name("two"))
	theirs := e.get(b, e.name("theirs"))
	waiting := e.queue(a, e.name("theirs"))
	if err := a.Close(); err != nil {
		e.Errorf("Close = %v; want nil", err)
	}
	e.mustEnd(l, 0, pawl.ErrReleased)
	if !e.closed(waiting.done, e.soon()) {
		e.Error("Acquire goes on after Close")
	}
	e.give(e.get(b, e.name("one")))
	e.give(e.get(b, e.name("two")))
	e.give(theirs)
	e.give(e.get(b, e.name("theirs")))
}

func clientNoRenew(e *env) {
	a, b := e.briefClient(), e.client()
	e.fixedEnd(a, b, e.h.TTL, pawl.NoRenew())
}

func clientMaxHold(e *env) {
	a, b := e.briefClient(), e.client()
	e.fixedEnd(a, b, 2*e.h.TTL, pawl.MaxHold(2*e.h.TTL))
}

// fixedEnd checks that a lease of a with the option ends after d, as lost.
func (e *env) fixedEnd(a, b *pawl.Client, d time.Duration, opt pawl.Option) {
	e.Helper()
	name := e.name("deploy")
	l := e.get(a, name, opt)
	time.Sleep(d / 2)
	e.alive(l)
	e.busy(b, name)
	e.mustEnd(l, d/2+e.h.Slack, pawl.ErrLost)
	l.Release(e.ctx)
	e.give(e.queue(b, name).got(e.h.TTL + e.soon()))
}
