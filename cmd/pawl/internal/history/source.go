// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Source asks a store again and again.
type Source struct {
	Name   string                       // its URL, without passwords
	Open   func() (*pawl.Client, error) // called until it succeeds, because the store may be unavailable
	Prefix string                       // the prefix of the names to list

	client atomic.Pointer[pawl.Client]
}

// Client returns the client of the store, or nil while the store is not open.
func (s *Source) Client() *pawl.Client { return s.client.Load() }

// Use sets the client of a store that is open already.
func (s *Source) Use(client *pawl.Client) { s.client.Store(client) }

// Ask asks the store once. One goroutine at a time may call it.
func (s *Source) Ask(ctx context.Context) (l Look) {
	client := s.client.Load()
	if client == nil {
		began := time.Now()
		if client, l.Err = s.Open(); l.Err != nil {
			l.At, l.Took = time.Now(), time.Since(began)
			return l
		}
		s.Use(client)
	}
	return Ask(ctx, client, func(ctx context.Context) ([]*pawl.Info, error) { return client.List(ctx, s.Prefix) })
}

// Follow asks the store until ctx ends, and passes each look to take. If rest is not nil, Follow calls it
// before the next look, and rest can delay that.
func (s *Source) Follow(ctx context.Context, take func(Look), rest func(began time.Time)) {
	defer s.Close()
	for ctx.Err() == nil {
		began := time.Now()
		l := s.Ask(ctx)
		if ctx.Err() != nil {
			return
		}
		take(l)
		if !Pause(ctx, l.Pace()-time.Since(began), nil) {
			return
		}
		if rest != nil {
			rest(began)
		}
	}
}

// Close closes the store, which holds no leases. The next Ask opens it again.
func (s *Source) Close() {
	if client := s.client.Swap(nil); client != nil {
		_ = client.Close()
	}
}

// Pause waits for d, until wake receives, or until ctx ends. It returns false if ctx has ended.
func Pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Slowness tells once when looks become rare because listing is slow, and again when listing takes
// twice as long.
type Slowness struct{ told time.Duration }

func (s *Slowness) Tell(w io.Writer, l *Look) {
	switch text := l.Seldom(); {
	case text == "":
		s.told = 0
	case l.Took >= 2*s.told:
		s.told = l.Took
		fmt.Fprintln(w, "pawl: "+text)
	}
}

// Seldom returns a text which says that looks are rare because listing is slow, or "".
func (l *Look) Seldom() string {
	pace := l.Pace()
	if pace <= 5*Every || !l.Answered() {
		return ""
	}
	return fmt.Sprintf("listing takes %v, so it is repeated only every %v", driver.ForPeople(l.Took), driver.ForPeople(pace))
}
