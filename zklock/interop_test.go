// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// kazoo takes a lock as a program in Python would, says so, and releases it when it
// reads a line.
const kazoo = `
import sys
from kazoo.client import KazooClient
c = KazooClient(hosts=sys.argv[1]); c.start()
kind = getattr(c, sys.argv[3])
l = kind(sys.argv[2], "python", extra_lock_patterns=sys.argv[4:])
l.acquire()
print("acquired", flush=True)
sys.stdin.readline()
l.release(); c.stop(); c.close()
print("released", flush=True)
`

// TestKazoo: locks of kazoo and ours stand in one queue, if kazoo is told to heed our
// nodes.
func TestKazoo(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import kazoo").Run(); err != nil {
		t.Fatal("kazoo is missing: apt-get install python3-kazoo")
	}
	s := sharedServer(t)
	const ttl = 80 * time.Second // Python may take long to start
	d := openURL(t, s.url(), ttl)
	// Not ReadLock: that waits for writers that came after it, too, and those for it.
	for _, class := range []string{"Lock", "WriteLock"} {
		name := "kazoo-" + class
		start := func() (*bufio.Reader, func()) {
			cmd := exec.Command("/usr/bin/python3", "-c", kazoo, s.Addr, d.wire.dir(name), class, "-lock-", "-read-")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			in, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			var errs strings.Builder
			cmd.Stderr = &errs
			must(t, cmd.Start())
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
				if t.Failed() {
					t.Log(errs.String())
				}
			})
			out.(*os.File).SetReadDeadline(time.Now().Add(3 * patience)) // it may never get the lock
			return bufio.NewReader(out), func() { fmt.Fprintln(in) }
		}
		// Ours first, theirs behind, ours behind that.
		g := take(t, d, request(name, ttl))
		out, let := start()
		if !eventually(ttl*3/4, func() bool { return len(childrenOf(t, d, name)) == 2 }) {
			t.Fatal("kazoo does not come into the queue")
		}
		if _, err := d.TryAcquire(t.Context(), request(name, ttl)); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: TryAcquire = %v; want ErrHeld", name, err)
		}
		w := wait(t, d, request(name, ttl))
		release(t, g)
		if line, err := out.ReadString('\n'); line != "acquired\n" {
			t.Fatalf("%s: kazoo says %q, %v", name, line, err)
		}
		if !w.Waits() {
			t.Errorf("%s: we got the lock while kazoo had it", name)
		}
		info, err := d.Inspect(t.Context(), name)
		if err != nil || len(info.Holders) != 1 || !strings.Contains(info.Holders[0].Who, "another library") {
			t.Errorf("%s: Inspect = %+v, %v; want another library's", name, info, err)
		}
		let()
		release(t, w.granted(t))
	}
}
