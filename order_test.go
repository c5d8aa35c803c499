// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// logged collects what a client logs.
type logged struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

// take returns what was logged since the last call.
func (l *logged) take() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.lines.Reset()
	return l.lines.String()
}

func TestOrderOfLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		class := func(name string) string { class, _, _ := strings.Cut(name, "/"); return class }
		c := open(t, new(memlock.Store).Driver(), &pawl.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Class: class})
		nest := func(names ...string) {
			t.Helper()
			ctx := context.Background()
			for _, name := range names {
				l, err := c.Acquire(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				defer release(t, l)
				var cancel context.CancelFunc
				ctx, cancel = l.Context(ctx)
				defer cancel()
			}
		}
		nest("stock/1", "invoice/1")
		nest("stock/2", "invoice/2")
		nest("stock/2", "stock/1")
		nest("stock/1", "stock/2") // of one class nothing is known
		nest("invoice/3")
		nest("a", "b", "stock/1")
		if got := log.take(); got != "" {
			t.Errorf("warned of one order: %s", got)
		}
		nest("invoice/3", "x", "stock/4")
		if got := log.take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "both orders") || !strings.Contains(got, "held=invoice taken=stock") {
			t.Errorf("warned: %q", got)
		}
		nest("invoice/4", "stock/4")
		nest("stock/4", "invoice/4")
		if got := log.take(); got != "" {
			t.Errorf("warned again: %s", got)
		}
		g, err := c.AcquireAll(context.Background(), []string{"b", "stock/9"})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range 2000 { // more than it remembers
			nest("many", fmt.Sprint(i))
		}
		for i := range 2000 {
			nest(fmt.Sprint(i), "many")
		}
		if got := log.take(); got != "" {
			t.Errorf("warned of what it does not remember: %.200s", got)
		}
	})
}
