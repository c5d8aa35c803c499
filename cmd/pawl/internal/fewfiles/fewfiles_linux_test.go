// SPDX-License-Identifier: Apache-2.0

// The test is not of package fewfiles, which would import what it has to come before.
package fewfiles_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	_ "github.com/pawl-go/pawl/cmd/pawl/internal/fewfiles"
)

const child = "FEWFILES_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	r, w, err := os.Pipe() // it needs the poller
	if err == nil {
		_, err = w.WriteString("ok")
		r.Close()
	}
	fmt.Print(err)
	os.Exit(0)
}

// TestLimits: a process that may open too few files ends with one line, and any other starts: none ends
// with a trace of Go's runtime. How many it needs depends on how many files it was born with.
func TestLimits(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const few, many = 4, 64
	started := false
	for _, limit := range []int{few, 5, 6, 7, 8, 9, 10, 12, 16, many} {
		cmd := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, limit), self)
		cmd.Env = append(os.Environ(), child+"=1", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		switch {
		case code == 71 && string(out) == "pawl: system: a process may open too few files: raise the limit: ulimit -n 64\n" && limit < many && !started:
		case code == 0 && string(out) == "<nil>" && limit > few:
			started = true
		default:
			t.Errorf("with a limit of %d files: exit %d, %.300q; want a line about the limit, or <nil> from the higher ones on", limit, code, out)
		}
	}
}
