// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// keeping is a process that keeps a name, and uses it for each line that it reads.
func keeping(c *pawl.Client) {
	for in := bufio.NewReader(os.Stdin); ; {
		l, err := c.Acquire(context.Background(), "deploy", pawl.KeepIdle(time.Hour))
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("got", uint64(l.Token()))
		_ = l.Release(context.Background())
		if _, err := in.ReadString('\n'); err != nil {
			os.Exit(0)
		}
	}
}

// keeper is such a process.
type keeper struct {
	*exec.Cmd
	t   testing.TB
	in  io.Writer
	out chan uint64
}

func startKeeper(t testing.TB, m *member, ttl time.Duration) (k *keeper, last uint64) {
	t.Helper()
	k = &keeper{exec.Command(os.Args[0]), t, nil, make(chan uint64, 100)}
	k.Env = append(os.Environ(), childEnv+"="+m.url()+" "+ttl.String()+" keeps")
	in, err := k.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Process.Kill()
		k.Wait()
	})
	k.in = in
	go func() {
		var token uint64
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "got %d", &token); err != nil {
				t.Errorf("the keeper says %q", lines.Text())
			}
			k.out <- token
		}
	}()
	token := k.token()
	if !eventually(patience, func() bool {
		last = token
		k.use()
		token = k.token()
		return token == last+1
	}) {
		t.Fatal("the process keeps nothing")
	}
	return k, token
}

func (k *keeper) use() { fmt.Fprintln(k.in) }

func (k *keeper) token() uint64 {
	k.t.Helper()
	select {
	case token := <-k.out:
		return token
	case <-time.After(patience):
		k.t.Fatal("the process does not get the name")
		return 0
	}
}

// TestKeepIdleKilled: others get what a process kept that was killed when its TTL is over,
// and nothing is left.
func TestKeepIdleKilled(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	m := startServer(t)
	k, last := startKeeper(t, m, ttl)
	k.Process.Kill()
	killed := time.Now()
	other := openClient(t, m.url(), ttl)
	if _, err := other.TryAcquire(t.Context(), "deploy"); err != nil && !errors.Is(err, pawl.ErrHeld) {
		t.Error(err)
	}
	l, err := other.Acquire(t.Context(), "deploy")
	if err != nil || uint64(l.Token()) <= last {
		t.Fatalf("%v, %v after token %d", l, err, last)
	}
	if after := time.Since(killed); after > ttl+soon {
		t.Errorf("%v after the keeper was killed, whose TTL is %v", after, ttl)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, openStore(t, m.url()))
}

// TestKeepIdleStopped: a process that keeps a name is stopped for longer than its TTL. Others
// get the name, and the process does not take what it has kept for its own.
func TestKeepIdleStopped(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	m := startServer(t)
	k, last := startKeeper(t, m, ttl)
	k.Process.Signal(syscall.SIGSTOP)
	other := openClient(t, m.url(), time.Minute)
	l, err := other.Acquire(t.Context(), "deploy")
	if err != nil || uint64(l.Token()) <= last {
		t.Fatalf("%v, %v after token %d", l, err, last)
	}
	k.use()
	k.Process.Signal(syscall.SIGCONT)
	select {
	case token := <-k.out:
		t.Errorf("the process has token %d while another holds the name", token)
	case <-time.After(ttl / 4):
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if token := k.token(); token <= uint64(l.Token()) {
		t.Errorf("token %d after %d", token, l.Token())
	}
}
