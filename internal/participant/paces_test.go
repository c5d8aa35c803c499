// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// paced is a store whose requests wait in the client.
type paced struct {
	*script
	wait func(ctx context.Context) error
}

func (p paced) Caps() driver.Caps {
	caps := p.script.Caps()
	caps.Paces = true
	return caps
}

func (p paced) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	if err := p.wait(ctx); err != nil {
		return driver.Answer{}, err
	}
	sent := driver.Now()
	ans, err := p.script.Ask(ctx, req)
	ans.Sent = sent
	return ans, err
}

// TestPaces shows that the time which a request waits in the client is no silence of the store: the wait goes on, and a
// short outage that follows is borne.
func TestPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Second
		asked := 0
		s := paced{script: &script{ask: func(*driver.Request) (driver.Answer, error) {
			switch asked++; asked {
			case 1:
				return driver.Answer{Free: time.Second, Session: 1}, nil
			case 2:
				time.Sleep(100 * time.Millisecond)
				return driver.Answer{}, &driver.Failure{Err: driver.ErrUnavailable, Silent: true}
			}
			return driver.Answer{Granted: true, Token: 7}, nil
		}}}
		s.wait = func(ctx context.Context) error {
			if asked != 1 {
				return nil
			}
			select {
			case <-time.After(3 * ttl):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p := New(s, Options{})
		defer p.Close()
		l, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: ttl})
		if err != nil {
			t.Fatalf("Acquire = %v; want a lease", err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPauseBeforeSending shows that an outage counts from the sending, also if the process stood still while the request
// waited in the client.
func TestPauseBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, long = 2 * time.Second, time.Minute
		var p *Participant
		var sent driver.Instant
		asked := 0
		s := paced{script: &script{ask: func(*driver.Request) (driver.Answer, error) {
			if asked++; asked == 1 {
				return driver.Answer{Free: time.Second, Session: 1}, nil
			}
			if sent == 0 {
				sent = driver.Now()
			}
			time.Sleep(100 * time.Millisecond)
			return driver.Answer{}, &driver.Failure{Err: driver.ErrUnavailable, Silent: true}
		}}}
		s.wait = func(context.Context) error {
			if asked == 1 {
				p.standStill(long)
				p.running.now() // a tick
			}
			return nil
		}
		p = New(s, Options{})
		defer p.Close()
		_, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: ttl})
		var silent *driver.SilentError
		if silence := driver.Now().Sub(sent); !errors.As(err, &silent) || silence < ttl || silence > ttl+2*maxPause {
			t.Errorf("Acquire = %v after a silence of %v; want a SilentError after %v", err, silence, ttl)
		}
	})
}

// TestPauseAfterSending shows that a pause is no silence, also of a request that waited in the client before.
func TestPauseAfterSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		var p *Participant
		asked := 0
		s := paced{script: &script{ask: func(*driver.Request) (driver.Answer, error) {
			switch asked++; asked {
			case 1:
				return driver.Answer{Free: time.Second, Session: 1}, nil
			case 2:
				p.standStill(2 * ttl)
				time.Sleep(2 * tick) // the clock has seen the pause
				return driver.Answer{}, &driver.Failure{Err: driver.ErrUnavailable, Silent: true}
			}
			return driver.Answer{Granted: true, Token: 7}, nil
		}}}
		s.wait = func(context.Context) error {
			if asked == 1 {
				time.Sleep(4 * ttl)
			}
			return nil
		}
		p = New(s, Options{})
		defer p.Close()
		if _, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: ttl}); err != nil {
			t.Errorf("Acquire = %v; want a lease", err)
		}
	})
}
