// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawl-go/pawl/chaos/check"
	"github.com/pawl-go/pawl/chaos/stage"
	"github.com/pawl-go/pawl/internal/proof"
	"github.com/pawl-go/pawl/internal/steps"
)

// decisions is the folder of what clients of Redlock decide.
func (r *run) decisions() string { return filepath.Join(r.dir, "decisions") }

// holdSteps holds what the servers and the clients of a Redlock have done against the formulas of spec/proof. These
// assume clocks that do not step, and what -beyond breaks.
func (r *run) holdSteps(end int64) error {
	t, ok := r.stage.(stage.Traced)
	if !ok || r.clocks || r.beyond {
		return nil
	}
	r.stage.Stop() // and the logs are complete
	trace := &steps.Trace{Nodes: len(t.Logs())}
	for i, log := range t.Logs() {
		if err := read(log, func(f io.Reader) error { return trace.ReadLog(i, f) }); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(r.decisions() + "/*")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := read(f, trace.ReadDecisions); err != nil {
			return err
		}
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pawl-go/pawl").Output()
	if err != nil {
		return err
	}
	m, err := proof.Read(filepath.Join(strings.TrimSpace(string(root)), "spec/proof/redlock.smt"))
	if err != nil {
		return err
	}
	var wrong []error
	r.steps, wrong = trace.Check(m, nil)
	for _, w := range wrong {
		r.found = append(r.found, check.Violation{Rule: check.NoSuchStep, At: end, Until: end, Text: w.Error()})
	}
	return nil
}

func read(file string, f func(io.Reader) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	return f(in)
}
