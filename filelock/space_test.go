// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

func processOf(pid int) process { return process{PID: pid, Space: driver.PIDSpace()} }

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make namespaces")
	}
}

// look, in a mount namespace of its own, becomes another user from whom /proc hides the processes of
// others, and says what it sees of the lock.
func (h *helper) look() {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "hidepid=2")
	}
	if err == nil { // its group, too: that of root may see all
		err = errors.Join(syscall.Setgroups(nil), syscall.Setgid(4711), syscall.Setuid(4711))
	}
	if err != nil {
		fmt.Println("cannot:", err)
		return
	}
	info, err := h.s.Inspect(context.Background(), h.name)
	if err != nil || len(info.Holders) != 1 {
		fmt.Println("wrong:", info, err)
		return
	}
	held := info.Holders[0]
	_, err = os.Stat(fmt.Sprint("/proc/", held.PID))
	fmt.Println("seen", held.Orphan, errors.Is(err, os.ErrNotExist))
}

// TestHidepid: a process that /proc hides has not ended.
func TestHidepid(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "filelock") // which another user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o1777); err != nil {
		t.Fatal(err)
	}
	d, err := NewStore(dir, &Options{AllowShared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	req := request("deploy")
	req.Holder = &driver.Holder{Who: "test", PID: os.Getpid()}
	g, err := clientOf(d).TryAcquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, g)
	other := startIn(t, unix.CLONE_NEWNS, "look", dir, "deploy")
	switch said := strings.Join(other.line(""), " "); said {
	case "seen false true":
	case "seen false false", "cannot: operation not permitted":
		t.Skip("this kernel hides no processes: " + said)
	default:
		t.Errorf("the other user says %q; want a holder that lives", said)
	}
}

// TestOtherContainer: nothing is concluded of processes in another PID namespace, whose ids are of others here.
func TestOtherContainer(t *testing.T) {
	needRoot(t)
	t.Parallel()
	s := open(t, t.TempDir())
	holder := startIn(t, unix.CLONE_NEWPID, "hold", s.dir, "deploy")
	lease := holder.line("held")[2]
	const is = "test (pid 1 of another container)"
	info := look(t, s, "deploy")
	if len(info.Holders) != 1 || info.Holders[0].Orphan || info.Holders[0].Holder.String() != is {
		t.Errorf("Inspect = %v; want %s, which lives", info.Holders, is)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Break(ctx, "deploy", lease, &driver.Holder{}, ""); err == nil || strings.Contains(err.Error(), "kill") || !strings.Contains(err.Error(), "another container") {
		t.Errorf("Break = %v; want one that tells of another container, and kills no process of this one", err)
	}
	next := startIn(t, unix.CLONE_NEWPID, "hold", s.dir, "deploy")
	eventually(t, "it waits", func() bool { return queueLen(s, "deploy") == 1 })
	if w := look(t, s, "deploy").Waiters[0]; w.Holder.String() != is {
		t.Errorf("the waiter is %v; want %s", w, is)
	}
	holder.kill()
	next.line("held")
}

// TestTicketsOfOtherContainers: a waiter is not passed over because a process with the same id is stopped here.
func TestTicketsOfOtherContainers(t *testing.T) {
	s := open(t, t.TempDir())
	p := start(t, "sleep", s.dir, "deploy")
	p.signal(syscall.SIGSTOP)
	here := newTicket(1)
	here.pid = p.Process.Pid
	eventually(t, "it is stopped", here.stopped)
	for _, space := range []string{"", here.space + "0"} {
		there := here
		there.space = space
		if parsed, ok := parseTicket(there.file()); !ok || parsed != there || parsed.stopped() {
			t.Errorf("the ticket %s is read as %v (%v), and stopped", there.file(), parsed, ok)
		}
	}
}
