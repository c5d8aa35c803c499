// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// slowly is a store that takes its time to say who holds a name.
type slowly struct{ driver.Store }

func (s slowly) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	time.Sleep(1500 * time.Millisecond)
	return s.Store.Inspect(ctx, name)
}

// TestNoWaitIsNotTold: a store that takes its time to answer does not make --no-wait a wait.
func TestNoWaitIsNotTold(t *testing.T) {
	for wait, want := range map[time.Duration]bool{0: false, 3 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			c, err := pawl.New(slowly{new(memlock.Store).Participant()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Acquire(t.Context(), "deploy"); err != nil {
				t.Fatal(err)
			}
			u, err := stores.Parse("mem://test")
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			f := &freeing{App: &cli.App{Stderr: &said}, name: "deploy", wait: cli.Wait{For: wait}, store: &stores.Store{Client: c, URL: u}}
			if _, err := f.until(t.Context()); err == nil || exit.As(err).Code != exit.Busy {
				t.Errorf("with --wait %v: %v; want that it is busy", wait, err)
			}
			if told := strings.Contains(said.String(), "waiting for"); told != want {
				t.Errorf("with --wait %v stderr is %q", wait, said.String())
			}
		})
	}
}
