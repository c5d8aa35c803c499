// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// frozenEnv makes this program clients that wait for the name at the nodes with this URL, until its stdin ends.
const frozenEnv = "REDLOCK_FROZEN"

// perProcess is how many clients such a process is.
const perProcess = 10

func frozenMain(url string) {
	opts := &Options{}
	opts.TTL = time.Minute
	opts.MaxTTL = time.Minute
	for range perProcess {
		c, err := Open(context.Background(), url, opts)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go c.Acquire(context.Background(), name)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestFrozenWaiters: processes that wait before a live client are stopped. A node gives the name to the first of them
// only: after that claim the client that looks takes it, however many are before it.
func TestFrozenWaiters(t *testing.T) {
	t.Parallel()
	const frozen = 40
	opts := patient()
	f := startFleet(t, 3, opts)
	open := func() *pawl.Client {
		own := *opts
		own.TTL = time.Minute
		c, err := Open(t.Context(), f.url(), &own)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	inQueues := func(n int) {
		t.Helper()
		if !eventually(patience, func() bool {
			for _, s := range f {
				if s.do("zcard", "pawl:redlock:{"+name+"}:waiters") != strconv.Itoa(n) {
					return false
				}
			}
			return true
		}) {
			t.Fatalf("%d waiters do not come into the queues", n)
		}
	}
	first, err := open().Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	for range frozen / perProcess {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), frozenEnv+"="+f.url()), os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		all = append(all, cmd)
	}
	inQueues(frozen)
	live := open()
	granted := make(chan driver.Instant, 1)
	var lease *pawl.Lease
	go func() {
		lease, err = live.Acquire(context.WithoutCancel(t.Context()), name)
		granted <- driver.Now()
	}()
	inQueues(frozen + 1)
	for _, p := range all {
		if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	free := driver.Now()
	release(t, first)
	at := <-granted
	if err != nil {
		t.Fatal(err)
	}
	took := at.Sub(free)
	t.Logf("the name was free for %v behind %d clients that were stopped", took, frozen)
	if most := claimFor * time.Duration(frozen) / 2; took > most {
		t.Errorf("the name was free for %v; want %v at most: each of %d stopped clients has kept it", took, most, frozen)
	}
	release(t, lease)
}
