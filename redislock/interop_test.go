// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// python is a process that locks by redis-py: it acquires and releases at each
// line it gets, and says whether it could.
const python = `
import redis, sys
lock = redis.Redis(port=int(sys.argv[1])).lock(sys.argv[2], timeout=20)
for line in sys.stdin:
    try:
        if line == "acquire\n":
            print(lock.acquire(blocking=False), flush=True)
        else:
            lock.release()
            print(True, flush=True)
    except redis.exceptions.LockError as e:
        print(type(e).__name__, flush=True)
`

// TestRedisPy: redis-py's Lock on the same key excludes us, and we exclude it.
func TestRedisPy(t *testing.T) {
	t.Parallel()
	python3 := "python3"
	if exec.Command(python3, "-c", "import redis").Run() != nil {
		python3 = "/usr/bin/python3" // that of the system, which may not be the first in PATH
		if exec.Command(python3, "-c", "import redis").Run() != nil {
			t.Fatal("redis-py is missing: apt-get install python3-redis")
		}
	}
	r := blessedServer(t)
	s := openLong(t, r)
	key := lockKey(defaultPrefix, "deploy")
	_, port, _ := net.SplitHostPort(r.Addr)
	cmd := exec.Command(python3, "-c", python, port, key)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); io.Copy(io.Discard, out); cmd.Wait() }()
	lines := bufio.NewScanner(out)
	other := func(what, want string) {
		t.Helper()
		fmt.Fprintln(in, what)
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("redis-py's %s says %q; want %s", what, lines.Text(), want)
		}
	}
	other("acquire", "True")
	if _, err := s.TryAcquire(t.Context(), long("deploy")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("TryAcquire = %v; want ErrHeld: redis-py has it", err)
	}
	w := wait(t, r, s, long("deploy"))
	other("release", "True")
	g := w.granted(lookEvery + patience)
	other("acquire", "False")
	other("release", "LockError") // of what it does not have
	if _, err := g.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew = %v; want nil", err)
	}
	release(t, g)
	other("acquire", "True")
	other("release", "True")
	release(t, take(t, s, long("deploy")))
}
