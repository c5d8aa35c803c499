// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/sim"
)

type simFlags struct {
	scenario string
	svg      string
	unsafe   bool
}

func (a *app) simCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Show what happens to Redlock when things go wrong",
		Long: `Show a run of Redlock on simulated masters, clocks and networks: who held the
lock when, which tokens the resource took, and the story in sentences. The
client is the one that runs in production; what goes wrong is made up, by a
scenario.

The runs are recorded. pawl's tests run the scenarios anew, and fail if
something else happens than what is recorded. To run plans of your own, or
those that are drawn from a seed, see package sim.

With --unsafe the protection is switched off that the scenario is about.

Scenarios:
` + scenarioList(),
		Example: `  pawl sim --scenario restart --unsafe --svg restart.svg
  pawl sim --scenario restart`,
		Args:    args(0, 0, "see pawl sim --help"),
		PreRunE: noStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.sim(f)
		},
	}
	cmd.Flags().StringVar(&f.scenario, "scenario", "", "`NAME` of a scenario")
	cmd.Flags().StringVar(&f.svg, "svg", "", "write a picture to `FILE`, too")
	cmd.Flags().BoolVar(&f.unsafe, "unsafe", false, "switch the protection off")
	_ = cmd.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(scenarioNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func scenarioNames() (names []string) {
	for _, s := range sim.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

func scenarioList() string {
	var b strings.Builder
	for _, s := range sim.Scenarios() {
		fmt.Fprintf(&b, "  %-13s %s\n", s.Name, wrap(s.Title, strings.Repeat(" ", 16)))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (a *app) sim(f simFlags) error {
	v, err := f.run()
	if err != nil {
		return err
	}
	if f.svg != "" {
		if err := writePicture(f.svg, v); err != nil {
			return err
		}
	}
	return v.WriteText(a.stdout)
}

func (f simFlags) run() (*sim.View, error) {
	for _, s := range sim.Scenarios() {
		if s.Name == f.scenario {
			return s.Recorded(!f.unsafe), nil
		}
	}
	if f.scenario == "" {
		return nil, usage("name a scenario", "use one of "+strings.Join(scenarioNames(), ", "))
	}
	return nil, usage(fmt.Sprintf("there is no scenario %q", shorten(f.scenario, 40)), "use one of "+strings.Join(scenarioNames(), ", "))
}

func writePicture(name string, v *sim.View) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return cannotDraw(err)
	}
	defer func() {
		if e := file.Close(); err == nil && e != nil {
			err = cannotDraw(e)
		}
	}()
	if err := v.WriteSVG(file); err != nil {
		return cannotDraw(err)
	}
	return nil
}

func cannotDraw(err error) error {
	return fail(exitSystem, "cannot write the picture: "+err.Error(), "name a file that can be written: --svg picture.svg")
}
