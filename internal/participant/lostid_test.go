// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestLostIDIsNotAskedForAgain: an event that a grant was ended may come again. So a waiter whose grant somebody has ended
// asks under another id, and the event ends nothing that lives.
func TestLostIDIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		var free atomic.Bool
		p, s := scripted(func(req *driver.Request) (driver.Answer, error) {
			if ids = append(ids, req.Lease); !free.Load() {
				ids = ids[:1]
			}
			return driver.Answer{Granted: free.Load(), Token: 7, Rank: 1, Free: time.Hour}, nil
		})
		defer p.Close()
		broken := driver.Event{Kind: driver.Lost, Name: "a", Lease: "l", Loss: &driver.LostError{Reason: driver.Broken}}
		time.AfterFunc(time.Second, func() {
			free.Store(true)
			p.hear(broken)
		})
		l, err := p.Acquire(t.Context(), &driver.Request{Name: "a", Lease: "l", TTL: time.Minute, Holder: &driver.Holder{}})
		if err != nil {
			t.Fatal(err)
		}
		var lost error
		l.OnLost(func(err error) { lost = err })
		p.hear(broken)
		if synctest.Wait(); lost != nil || len(ids) != 2 {
			t.Errorf("asked for %v: %v; want another id after the event, and that this lease lives", ids, lost)
		}
		if len(s.refs) != 1 || s.refs[0].Lease != "l" || !s.ended[0].Unsure {
			t.Errorf("ended %+v, %+v; want the first id", s.refs, s.ended)
		}
	})
}
