// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// TestPausedWaiters: processes that wait before a live one are stopped. However many they are, the
// name is free for one TTL, as their etcd leases end together. When they go on, none of them believes
// that it is next.
func TestPausedWaiters(t *testing.T) {
	t.Parallel()
	const paused, ttl = 6, 4 * time.Second
	m := startServer(t)
	s := openStore(t, m.url())
	g := take(t, s, request("deploy"))
	queued := func() int {
		q, err := s.queue(t.Context(), "deploy")
		if err != nil {
			t.Error(err)
		}
		return len(q)
	}
	held := make(chan string, paused)
	var waiters []*exec.Cmd
	for i := range paused {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+m.url()+" "+ttl.String())
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		go func() {
			if line, err := bufio.NewReader(out).ReadString('\n'); err == nil {
				held <- line
			}
		}()
		if !eventually(patience, func() bool { return queued() == i+2 }) {
			t.Fatal("a process does not come into the queue")
		}
		waiters = append(waiters, cmd)
	}
	signal := func(sig syscall.Signal) {
		for _, c := range waiters {
			if err := c.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := wait(t, s, request("deploy"))
	signal(syscall.SIGSTOP)
	release(t, g)
	free := driver.Now()
	next := w.granted(patience)
	took := w.at.Sub(free)
	t.Logf("the name was free for %v behind %d paused waiters, with a TTL of %v", took, paused, ttl)
	if most := ttl * paused / 2; took > most {
		t.Errorf("the name was free for %v; want %v at most: each of the paused waiters has kept it", took, most)
	}
	signal(syscall.SIGCONT)
	if !eventually(patience, func() bool { return queued() == paused+1 }) {
		t.Error("the waiters do not come back")
	}
	if len(held) > 0 {
		t.Errorf("%d of the waiters that were paused hold the name beside its holder", len(held))
	}
	release(t, next)
	select {
	case <-held:
	case <-time.After(patience):
		t.Error("none of the waiters that were paused gets the name")
	}
}
