// SPDX-License-Identifier: Apache-2.0

// Simulate shows a recorded run of Redlock on simulated masters, clocks and networks: who
// held the lock when, which tokens the resource took, and the story in sentences.
//
//	go run ./lab/simulate --scenario restart
//	go run ./lab/simulate --scenario restart --unsafe --svg restart.svg
//
// With --unsafe, the scenario runs without the protection that it is about. The tests of
// package sim run each scenario again with the production client, and compare the run with
// the recording.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pawl-go/pawl/lab/sim"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("simulate", flag.ContinueOnError)
	f.SetOutput(stderr)
	scenario := f.String("scenario", "", "`NAME` of a scenario: "+strings.Join(names(), ", "))
	picture := f.String("svg", "", "also write a picture to `FILE`")
	unsafe := f.Bool("unsafe", false, "switch off the protection that the scenario is about")
	if err := f.Parse(args); err != nil {
		return err
	}
	view, err := recorded(*scenario, !*unsafe)
	if err != nil {
		return err
	}
	if *picture != "" {
		if err := draw(*picture, view); err != nil {
			return err
		}
	}
	return view.WriteText(stdout)
}

func names() (all []string) {
	for _, s := range sim.Scenarios() {
		all = append(all, s.Name)
	}
	return all
}

func recorded(scenario string, safe bool) (*sim.View, error) {
	for _, s := range sim.Scenarios() {
		if s.Name == scenario {
			return s.Recorded(safe), nil
		}
	}
	return nil, fmt.Errorf("there is no scenario %q: use one of %s", scenario, strings.Join(names(), ", "))
}

func draw(name string, v *sim.View) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(v.WriteSVG(file), file.Close())
}
