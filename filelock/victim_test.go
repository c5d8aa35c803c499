// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestBreak(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	victim := start(t, "obey", s.dir, "deploy")
	lease := victim.line("held")[2]
	next := line(t, s, "deploy", "hold", 1)[0]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	by := &driver.Holder{Who: "the operator"}
	if err := s.Break(ctx, "deploy", "another", by, "x"); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("Break of another lease = %v; want ErrHeld", err)
	}
	if err := s.Break(ctx, "deploy", lease, by, "it hangs"); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(victim.line("lost"), " "); !strings.Contains(said, `by the operator: "it hangs"`) {
		t.Errorf("the victim heard %q", said)
	}
	next.line("held")
}

// TestBreakSlowly: a victim notes its release, and is paused before it lets the flock go.
func TestBreakSlowly(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	g := acquire(t, s, "deploy")
	h := s.hold(g)
	noted, free := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(free) })
	defer let()
	g.OnLost(func(error) {
		h.note(note{Released: h.token()})
		close(noted)
		<-free
		g.Release(context.Background())
	})
	over := make(chan error, 1)
	go func() { over <- s.Break(context.Background(), "deploy", h.st.rec.Lease, &driver.Holder{}, "") }()
	<-noted
	select {
	case err := <-over:
		t.Fatalf("Break = %v before the lock was free", err)
	case <-time.After(time.Second): // ten looks at the record
	}
	let()
	if err := <-over; err != nil {
		t.Errorf("Break = %v; want nil", err)
	}
	acquire(t, s, "deploy")
}

// TestBreakStopped: a victim that is stopped cannot let go. The error says
// so, and the message waits for it.
func TestBreakStopped(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	victim := start(t, "obey", s.dir, "deploy")
	lease := victim.line("held")[2]
	victim.signal(syscall.SIGSTOP)
	eventually(t, "the victim is stopped", func() bool { return processOf(victim.Process.Pid).stopped() })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.Break(ctx, "deploy", lease, &driver.Holder{}, "")
	hint := fmt.Sprintf("kill -CONT %d", victim.Process.Pid)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), hint) {
		t.Errorf("Break = %v; want a hint to %s", err, hint)
	}
	victim.signal(syscall.SIGCONT)
	victim.line("lost")
}

// TestCrashed: nobody holds what a killed process held, and the record of it
// does not say otherwise.
func TestCrashed(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	p := start(t, "hold", s.dir, "deploy")
	held := p.line("held")
	p.kill()
	if info := look(t, s, "deploy"); len(info.Holders) != 0 || fmt.Sprint(info.Token) != held[1] {
		t.Errorf("Inspect = %+v; want no holder, and the token %s", info, held[1])
	}
	err := s.Break(context.Background(), "deploy", held[2], &driver.Holder{}, "")
	if !errors.Is(err, driver.ErrReleased) {
		t.Errorf("Break = %v; want ErrReleased", err)
	}
	if g := acquire(t, s, "deploy"); fmt.Sprint(g.Token()) <= held[1] {
		t.Errorf("token %d after %s", g.Token(), held[1])
	}
}
