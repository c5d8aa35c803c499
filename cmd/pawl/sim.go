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
	seed     uint64
	svg      string
	unsafe   bool
}

func (a *app) simCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Show what happens to Redlock when things go wrong",
		Long: `Run Redlock on simulated masters, clocks and networks, in no time, and show what
happened: who held the lock when, which tokens the resource took, and the story
in sentences. The client is the one that runs in production; what goes wrong is
made up, by a scenario or by a seed. The same arguments always show the same.

With --unsafe the protection is switched off that the scenario is about (with
--seed: nodes grant locks at once after they have lost their data), and the
exit code is 0 although a rule is broken. Without it a broken rule is a bug in
pawl; the exit code is 1, and the plan is cut down to what breaks it.

Scenarios:
` + scenarioList(),
		Example: `  pawl sim --scenario restart --unsafe --svg restart.svg
  pawl sim --scenario restart
  pawl sim --seed 7`,
		Args:    args(0, 0, "see pawl sim --help"),
		PreRunE: noStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("seed") == (f.scenario != "") {
				return usage("name a scenario or a seed, one of the two", "see pawl sim --help")
			}
			return a.sim(f)
		},
	}
	cmd.Flags().StringVar(&f.scenario, "scenario", "", "`NAME` of a scenario")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "`NUMBER` to draw a plan from")
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
		fmt.Fprintf(&b, "  %-13s %s\n", s.Name, s.Title)
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
	if v.Bad && !f.unsafe {
		a.code = 1
	}
	return v.WriteText(a.stdout)
}

func (f simFlags) run() (*sim.View, error) {
	if f.scenario == "" {
		return f.runSeed(), nil
	}
	for _, s := range sim.Scenarios() {
		if s.Name == f.scenario {
			return s.View(!f.unsafe), nil
		}
	}
	return nil, usage(fmt.Sprintf("there is no scenario %q", shorten(f.scenario, 40)), "use one of "+strings.Join(scenarioNames(), ", "))
}

func (f simFlags) runSeed() *sim.View {
	plan := sim.Draw(f.seed)
	plan.Off.Quarantine = f.unsafe
	h := sim.Run(plan)
	if len(h.Violations) > 0 {
		h = sim.Run(sim.Shrink(plan, h.Violations[0].Rule))
	}
	v := sim.NewView(h)
	v.Title = fmt.Sprintf("Seed %d: %d nodes, %d clients, leases of %v", f.seed, plan.Nodes, len(plan.Clients), plan.TTL)
	if f.unsafe {
		v.Note = "Switched off: the protection that a node that has lost its data waits before it grants"
	}
	return v
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
