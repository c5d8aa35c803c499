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

// sighted is a store that counts how often it was asked who holds a name.
type sighted struct {
	*script
	looks int
}

func (s *sighted) Caps() driver.Caps { return driver.Caps{Shows: true} }

func (s *sighted) Inspect(context.Context, string) (*driver.Info, error) {
	s.looks++
	return &driver.Info{Name: "a", Holders: []driver.Held{{Lease: "x"}}}, nil
}

// A call is granted its lease, or gives up, in the instant in which it begins to look.
func TestNoLookAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sighted{script: &script{}}
		p := New(s, Options{})
		look := func(when string, ctx context.Context, wantLooks int, wantHeld bool) {
			t.Helper()
			held := p.Obstacle(ctx, "a", nil)
			if synctest.Wait(); (held != nil) != wantHeld || s.looks != wantLooks {
				t.Errorf("%s it is told of %v after %d looks", when, held, s.looks)
			}
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		look("when the call has ended", over, 0, false)
		look("before that", context.Background(), 1, true)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		look("when the client is closed", context.Background(), 1, false)
	})
}

// A call whose time is over returns that, and not the end of the wait, which comes later.
func TestTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(&sighted{script: &script{ask: func(*driver.Request) (driver.Answer, error) { return driver.Answer{Free: -1}, nil }}}, Options{})
		defer p.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, &driver.Request{Name: "a", Lease: "y", TTL: time.Minute}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v; want that its time is over", err)
		}
	})
}
