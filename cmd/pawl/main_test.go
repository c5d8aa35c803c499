// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// programs are what this program is when it is called by their names, so that tests
// run the real command in real processes.
var programs = map[string]func(){"pawl": func() { os.Args = patient(program, os.Args[1:]); main() }}

// patient returns the command line of a pawl that waits longer for a server than people do: the machine may be
// busy. A --connect-timeout behind it counts.
func patient(program string, words []string) []string {
	if len(words) > 0 && slices.Contains(connecting, words[0]) {
		words = slices.Insert(slices.Clone(words), 1, "--connect-timeout=45s")
	}
	return append([]string{program}, words...)
}

var connecting = strings.Fields("run elect once hold acquire renew release ls show watch wait break bless max-ttl nodes doctor bench top serve")

func TestMain(m *testing.M) {
	// With -race every process would sleep for a second when it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	if programs[filepath.Base(os.Args[0])] == nil {
		heedSignals()
		flag.Parse()
		parallel()
	}
	testscript.Main(m, programs)
}

// parallel lets fewer tests run at a time than those of stores: each of these starts processes.
func parallel() {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
}

// heedSignals lets what the tests start begin with the default effect of signals that whoever started the tests
// ignores, as nohup and a script's background do: a signal that is caught has that in a child.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// program is the name that this process was started by, which testscript
// shortens: the tests know their guards by it.
var program = os.Args[0]

func TestScript(t *testing.T) {
	p := scripts(func(workDir string) string { return "file://" + workDir + "/locks" })
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// scripts returns what the scripts run with, on a store that may be in their directory.
func scripts(store func(workDir string) string) testscript.Params {
	return testscript.Params{
		Setup: func(env *testscript.Env) error {
			for _, key := range []string{"GORACE", "GO_PAWL_MUTANT"} { // the latter is internal/mutants'
				env.Setenv(key, os.Getenv(key))
			}
			env.Setenv("PAWL_STORE", store(env.WorkDir))
			return os.Mkdir(filepath.Join(env.WorkDir, "locks"), 0o700)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  scriptStatus,
			"waitfor": scriptWaitFor,
			"elapsed": scriptElapsed,
			"poll":    scriptPoll,
		},
	}
}

// scriptStatus runs a command and checks its exit code: status CODE CMD...
func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE CMD...")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(err); got != args[0] {
		ts.Fatalf("exit code %s, want %s (%v)", got, args[0], err)
	}
}

// scriptWaitFor waits until a file exists.
func scriptWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	if !poll(func() bool { _, err := os.Stat(path); return err == nil }) {
		ts.Fatalf("%s did not appear", args[0])
	}
}

// scriptPoll runs a command until it succeeds: poll CMD...
func scriptPoll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: poll CMD...")
	}
	if !poll(func() bool { return ts.Exec(args[0], args[1:]...) == nil }) {
		ts.Fatalf("in vain for %v: %q", ample, args)
	}
}

// scriptElapsed checks how long a command took: elapsed MIN MAX status CODE CMD...
func scriptElapsed(ts *testscript.TestScript, neg bool, args []string) {
	low, err := time.ParseDuration(args[0])
	ts.Check(err)
	high, err := time.ParseDuration(args[1])
	ts.Check(err)
	began := time.Now()
	scriptStatus(ts, neg, args[3:])
	if d := time.Since(began); d < low || d > high {
		ts.Fatalf("took %v, want %v to %v", d, low, high)
	}
}

// ample is for what takes no time unless the machine is very busy.
const ample = time.Minute

// poll waits until ok returns true. What takes long is looked at less often: a look may
// be one at all processes.
func poll(ok func() bool) bool {
	for began := time.Now(); ; {
		if ok() {
			return true
		}
		waited := time.Since(began)
		if waited > ample {
			return false
		}
		time.Sleep(min(max(waited/30, 10*time.Millisecond), 100*time.Millisecond))
	}
}

// exitCode returns the exit code, or -n if signal n has ended the process.
func exitCode(err error) string {
	var e *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &e):
		if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return strconv.Itoa(-int(s.Signal()))
		}
		return strconv.Itoa(e.ExitCode())
	}
	return err.Error()
}
