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

// TestPauseIsNoSilence: a waiter whose process stands still for longer than its TTL goes on waiting.
func TestPauseIsNoSilence(t *testing.T) {
	const ttl, long = 10 * time.Second, time.Minute
	silence := errors.New("no answer")
	waits := func() (driver.Answer, error) { return driver.Answer{Rank: 1, Free: time.Second}, nil }
	silent := func() (driver.Answer, error) { return driver.Answer{}, &driver.Failure{Err: silence, Silent: true} }
	uncertain := func() (driver.Answer, error) {
		return driver.Answer{}, &driver.Failure{Err: silence, Silent: true, Maybe: true}
	}
	for name, before := range map[string][]func() (driver.Answer, error){ // what it is answered before the pause
		"first":        nil,
		"later":        {waits},
		"in an outage": {waits, silent, silent},
		"in doubt":     {uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p *Participant
				asked := 0
				p, _ = scripted(func(*driver.Request) (driver.Answer, error) {
					switch asked++; {
					case asked <= len(before):
						return before[asked-1]()
					case asked == len(before)+1:
						p.standStill(long)
						return silent()
					case asked == len(before)+2 && len(before) > 0:
						return silent()
					}
					return driver.Answer{Granted: true, Token: 7}, nil
				})
				defer p.Close()
				if _, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: ttl, Holder: &driver.Holder{}}); err != nil {
					t.Errorf("after %d requests: %v", asked, err)
				}
			})
		})
	}
}

// TestPausedGrants: a grant that came too late because the process stood still is asked for again, however often.
func TestPausedGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *Participant
		asked := 0
		s := &expiring{new(script)}
		s.ask = func(*driver.Request) (driver.Answer, error) {
			if asked++; asked <= 2*maxLate {
				p.standStill(time.Minute)
			}
			return driver.Answer{Granted: true, Token: 7}, nil
		}
		p = New(s, Options{})
		defer p.Close()
		if _, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: time.Second, Holder: &driver.Holder{}}); err != nil {
			t.Errorf("after %d grants: %v", asked, err)
		}
	})
}

// expiring is a store whose leases expire.
type expiring struct{ *script }

func (s *expiring) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{CrossHost: true, Expiry: true}}
}

func (s *expiring) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	since := driver.Now()
	ans, err := s.ask(req)
	ans.Since = since
	return ans, err
}

// standStill is a pause of the process: its clocks go on, and nothing ticks.
func (p *Participant) standStill(d time.Duration) {
	began := driver.Now()
	time.Sleep(d)
	p.StoodStill(began)
}
