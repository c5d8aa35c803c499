// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// onEveryGuard runs a test on each kind of guard.
func onEveryGuard(t *testing.T, f func(t *testing.T, g Guard)) {
	t.Run("memory", func(t *testing.T) { f(t, new(Memory)) })
	t.Run("dir", func(t *testing.T) { f(t, openTestDir(t, t.TempDir())) })
}

func TestStaleTokenIsRefused(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, g Guard) {
		var wrote []pawl.Token
		write := func(resource string, token pawl.Token) error {
			return g.Do(t.Context(), resource, token, func() error { wrote = append(wrote, token); return nil })
		}
		for _, token := range []pawl.Token{33, 33, 34} {
			if err := write("x", token); err != nil {
				t.Fatal(err)
			}
		}
		err := write("x", 33)
		var stale *StaleError
		if !errors.As(err, &stale) || *stale != (StaleError{"x", 33, 34}) || !errors.Is(err, ErrStale) {
			t.Errorf("a late write: %v", err)
		}
		if want := `fence: token 33 is older than 34, which resource "x" has seen: the lease it came from has ended`; err.Error() != want {
			t.Errorf("the error says %q, want %q", err, want)
		}
		if err := write("another", 1); err != nil {
			t.Errorf("another resource: %v", err)
		}
		if got := fmt.Sprint(wrote); got != "[33 33 34 1]" {
			t.Errorf("written with tokens %s", got)
		}
	})
}

// TestFailedWriteLeavesTheTokenRaised: nobody knows what the write has done.
func TestFailedWriteLeavesTheTokenRaised(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, g Guard) {
		broken := errors.New("broken")
		if err := g.Do(t.Context(), "x", 34, func() error { return broken }); err != broken {
			t.Errorf("Do = %v, want the function's error", err)
		}
		if err := g.Do(t.Context(), "x", 33, nil); !errors.Is(err, ErrStale) {
			t.Errorf("an older one: %v", err)
		}
		func() {
			defer func() { recover() }()
			g.Do(t.Context(), "x", 35, func() error { panic("crash") })
		}()
		if err := g.Do(t.Context(), "x", 35, nil); err != nil {
			t.Errorf("again, after a panic: %v", err)
		}
	})
}

// TestPausedBetweenCheckAndWrite: the next holder waits for the write, or for its
// own context.
func TestPausedBetweenCheckAndWrite(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, g Guard) {
		inside, resume := make(chan bool), make(chan bool)
		var log []pawl.Token // without a lock: the guard is one
		var wait sync.WaitGroup
		wait.Go(func() {
			err := g.Do(t.Context(), "x", 33, func() error {
				close(inside)
				<-resume
				log = append(log, 33)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-inside
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := g.Do(ctx, "x", 34, nil); err != context.DeadlineExceeded {
			t.Errorf("beside a write: %v, want the context's error", err)
		}
		if err := g.Do(t.Context(), "another", 1, nil); err != nil {
			t.Errorf("another resource waits too: %v", err)
		}
		waiting := make(chan bool)
		wait.Go(func() {
			close(waiting)
			if err := g.Do(t.Context(), "x", 34, func() error { log = append(log, 34); return nil }); err != nil {
				t.Error(err)
			}
		})
		<-waiting
		close(resume)
		wait.Wait()
		if fmt.Sprint(log) != "[33 34]" {
			t.Errorf("written by %v", log)
		}
	})
}

// TestManyWriters: no write has a token below one written before it, whatever
// comes when.
func TestManyWriters(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, g Guard) {
		var history []pawl.Token
		var refused int
		var mu sync.Mutex
		var wait sync.WaitGroup
		for range 32 {
			wait.Go(func() {
				for i := range 20 {
					token := pawl.Token(1 + i + rand.N(10))
					err := g.Do(t.Context(), "x", token, func() error { history = append(history, token); return nil })
					if err != nil {
						if !errors.Is(err, ErrStale) {
							t.Error(err)
						}
						mu.Lock()
						refused++
						mu.Unlock()
					}
				}
			})
		}
		wait.Wait()
		for i := 1; i < len(history); i++ {
			if history[i] < history[i-1] {
				t.Fatalf("%d was written after %d", history[i], history[i-1])
			}
		}
		if len(history) == 0 || refused == 0 || len(history)+refused != 32*20 {
			t.Errorf("%d writes and %d refusals", len(history), refused)
		}
	})
}

func TestEndedContext(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, g Guard) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		called := false
		if err := g.Do(ctx, "x", 1, func() error { called = true; return nil }); err != context.Canceled || called {
			t.Errorf("Do = %v, called: %v", err, called)
		}
	})
}

func TestCheck(t *testing.T) {
	onEveryGuard(t, func(t *testing.T, g Guard) {
		for _, c := range []struct {
			resource string
			token    pawl.Token
			want     string
		}{
			{"", 1, "the resource has no name"},
			{"x", 0, "token 0 is no fencing token"},
			{"x", 1 << 63, "9223372036854775808 is larger than 2^63-1"},
			{"x", 1<<64 - 1, "larger than 2^63-1"},
		} {
			err := g.Do(t.Context(), c.resource, c.token, func() error { t.Error("called"); return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrStale) {
				t.Errorf("resource %q, token %d: %v", c.resource, c.token, err)
			}
		}
		if err := g.Do(t.Context(), "x", MaxToken, nil); err != nil {
			t.Errorf("the largest token: %v", err)
		}
		if err := g.Do(t.Context(), "x", MaxToken-1, nil); !errors.Is(err, ErrStale) {
			t.Errorf("the one before: %v", err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"1", "33", "9007199254740993", "9223372036854775807", "9223372036854775808",
		"", "0", "00", "01", "-1", "+1", " 1", "1 ", "1,2", "1_0", "0x1", "1e3", "1.0", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err != nil {
			if token != 0 || len(err.Error()) > 400 {
				t.Errorf("ParseToken(%q) = %d, %v", s, token, err)
			}
			return
		}
		if Check("x", token) != nil || fmt.Sprint(token) != s {
			t.Errorf("ParseToken(%q) = %d", s, token)
		}
	})
}
