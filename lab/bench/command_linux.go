// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The contenders of S10 are programs.
func init() {
	enlist(
		&contender{name: "true", kind: floor, command: func(string) []string { return []string{"true"} }},
		&contender{name: "flock x true", command: func(dir string) []string { return []string{"flock", filepath.Join(dir, "x"), "true"} }},
		&contender{name: "pawl run x -- true", kind: ours, command: func(dir string) []string {
			return []string{filepath.Join(dir, "pawl"), "run", "x", "--", "true"}
		}},
	)
}

// command runs a program again and again, on all processors.
func (r *run) command(contender, _ string) (*sample, error) {
	words := contenders[contender].command(r.dir)
	s := &sample{Extra: map[string]float64{}}
	if contenders[contender].kind == ours {
		size, err := buildPawl(words[0])
		if err != nil {
			return nil, err
		}
		s.Extra["binary, MB"] = float64(size) / 1e6
	}
	cpu := usage(unix.RUSAGE_CHILDREN)
	for began := time.Now(); s.Elapsed < r.cell; s.Elapsed = time.Since(began) {
		before := nano()
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = append(os.Environ(), "PAWL_STORE=file:"+r.dir)
		clients, servers, _ := pinned()
		err := startOn(cmd, clients, servers)
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", words, err)
		}
		s.Times = append(s.Times, nano()-before)
		s.Ops++
	}
	s.All, s.Client = s.Ops, usage(unix.RUSAGE_CHILDREN)-cpu
	return s, nil
}

// buildPawl builds the command unless file exists, and returns its size.
func buildPawl(file string) (size int64, err error) {
	info, err := os.Stat(file)
	if err != nil {
		cmd := exec.Command("go", "build", "-o", file, "github.com/pawl-go/pawl/cmd/pawl")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as in the README
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("cannot build pawl: %w: %s", err, out)
		}
		if info, err = os.Stat(file); err != nil {
			return 0, err
		}
	}
	return info.Size(), nil
}
