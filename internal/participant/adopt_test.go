// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// shown is a store that shows one holder, and may be closed.
type shown struct {
	script
	holder driver.Held
	closed time.Duration
	renews int
}

func (s *shown) Caps() driver.Caps {
	return driver.Caps{Guarantees: driver.Guarantees{Fencing: true, CrossHost: true, Expiry: true}, Shows: true, Adopts: true}
}

func (s *shown) Inspect(context.Context, string) (*driver.Info, error) {
	return &driver.Info{Holders: []driver.Held{s.holder}}, nil
}

func (s *shown) Describe(context.Context) (*driver.StoreInfo, error) {
	return &driver.StoreInfo{Closed: s.closed}, nil
}

func (s *shown) Renew(context.Context, driver.Ref, time.Duration) (driver.Renewal, error) {
	s.renews++
	return driver.Renewal{}, &driver.LostError{Reason: driver.Gone}
}

// TestAdoptForeign shows that a lock of another library, which has no token, is not adopted by its value.
func TestAdoptForeign(t *testing.T) {
	s := &shown{holder: driver.Held{Lease: "l"}}
	if g, err := Adopt(t.Context(), s, "a", "l"); g != nil || !errors.Is(err, driver.ErrLost) {
		t.Errorf("Adopt of what has no token = %v, %v; want ErrLost", g, err)
	}
	s.holder.Token = 7
	if g, err := Adopt(t.Context(), s, "a", "l"); err != nil || g.Token() != 7 {
		t.Errorf("Adopt = %v, %v; want the lease", g, err)
	}
}

// TestAdoptedInQuarantine shows that a store that may have forgotten a lease is not asked to renew it, and that the lease does
// not count as lost.
func TestAdoptedInQuarantine(t *testing.T) {
	s := &shown{holder: driver.Held{Lease: "l", Token: 7}}
	g, err := Adopt(t.Context(), s, "a", "l")
	if err != nil {
		t.Fatal(err)
	}
	s.closed = time.Minute
	var closed *driver.ClosedError
	if _, err := g.Renew(t.Context(), time.Minute); !errors.As(err, &closed) || s.renews > 0 {
		t.Errorf("Renew while the store is closed = %v, after %d requests; want a ClosedError, and none", err, s.renews)
	}
	for _, id := range []string{"l", "forgotten"} {
		if g, err := Adopt(t.Context(), s, "a", id); g != nil || !errors.As(err, &closed) {
			t.Errorf("Adopt of %s while the store is closed = %v, %v; want a ClosedError", id, g, err)
		}
	}
	s.closed = 0
	if _, err := g.Renew(t.Context(), time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Renew = %v; want ErrLost", err)
	}
}
