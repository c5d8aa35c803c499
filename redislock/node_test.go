// SPDX-License-Identifier: Apache-2.0

//go:build linux && interop

package redislock

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
)

// node is a process that locks by node's redlock, of version 4 or 5: it acquires
// and releases at each line it gets, and says whether it could.
const node = `
const [port, key, version] = process.argv.slice(2);
const Redis = require("ioredis");
const Redlock = version == 4 ? require("redlock4") : require("redlock5").default;
const lock = new Redlock([new Redis(port)], {retryCount: 0});
let held;
const doIt = {
    acquire: async () => { held = version == 4 ? await lock.lock(key, 20000) : await lock.acquire([key], 20000); },
    extend: async () => { held = await held.extend(20000); },
    release: () => version == 4 ? held.unlock() : held.release(),
};
(async () => {
    for await (const line of require("readline").createInterface({input: process.stdin})) {
        try {
            await doIt[line]();
            console.log("yes");
        } catch (e) {
            console.log(e.name);
        }
    }
    process.exit();
})();
`

// TestNodeRedlock: node's redlock on the same key excludes us, and we exclude it.
// "make interop" runs it, with the packages in $PAWL_NODE_MODULES.
func TestNodeRedlock(t *testing.T) {
	modules := os.Getenv("PAWL_NODE_MODULES")
	if modules == "" {
		t.Fatal("PAWL_NODE_MODULES is not set: use make interop")
	}
	script := filepath.Join(t.TempDir(), "lock.js")
	must(t, os.WriteFile(script, []byte(node), 0o600))
	for version, refused := range map[string]string{"4": "LockError", "5": "ExecutionError"} {
		t.Run(version, func(t *testing.T) {
			r := blessedServer(t)
			c := openClient(t, r.url(), longOptions())
			other := startNode(t, r, modules, script, version)
			other("acquire", "yes")
			fails(t, "TryAcquire", errorOf(c.TryAcquire(t.Context(), "deploy")), pawl.ErrHeld)
			other("extend", "yes")
			next := acquiring(t, r, c, 1)
			other("release", "yes")
			var l *pawl.Lease
			select {
			case l = <-next:
			case <-time.After(lookEvery + patience):
				t.Fatal("the waiter does not see that redlock has released")
			}
			other("acquire", refused)
			succeeds(t, "Extend", l.Extend(t.Context(), time.Minute))
			release(t, l)
			other("acquire", "yes")
			other("release", "yes")
			try(t, c, "deploy")
		})
	}
}

// startNode starts the process and returns a function that makes it do something
// and checks the outcome.
func startNode(t *testing.T, r *redis, modules, script, version string) func(what, want string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.Addr)
	cmd := exec.Command("node", script, port, lockKey(defaultPrefix, "deploy"), version)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { in.Close(); io.Copy(io.Discard, out); cmd.Wait() })
	lines := bufio.NewScanner(out)
	return func(what, want string) {
		t.Helper()
		fmt.Fprintln(in, what)
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("redlock's %s says %q; want %s", what, lines.Text(), want)
		}
	}
}
