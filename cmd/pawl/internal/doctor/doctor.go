// SPDX-License-Identifier: Apache-2.0

// Package doctor is "pawl doctor", which says what is wrong with a store and what to do.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
)

const doctorHelp = `Doctor checks a store, and says what is wrong and what to do: whether it answers
and how fast, how its servers are set up (version, role, persistence, eviction,
clock), whether it grants locks, and which locks and queues are stuck. It takes
and releases the lock "pawl-doctor", unless --probe=false is set or it may not,
and changes nothing else. It needs no rights beyond those for locks.

Exit codes, as monitoring systems expect them:
  0        all is well
  1        a warning: it works, but not well, or not for long
  2        a problem: the store does not answer, grants nothing, or does not
           keep its promises
  64, 78   wrong usage, or a wrong URL`

func Command(a *cli.App) *cobra.Command {
	d := &doctor{App: a}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a store, and say what to do",
		Long:  doctorHelp,
		Example: `  pawl doctor -s redis://localhost
  pawl doctor --json | jq -r '.findings[] | select(.level != "fine") | .text'`,
		Args: cli.Args(0, 0, "try: pawl doctor --store redis://HOST"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.long <= 0 {
				return exit.Usage(fmt.Sprintf("--long %v is not positive", d.long), "use something like 24h")
			}
			return d.run(cmd.Context())
		},
	}
	cli.DurationVar(cmd.Flags(), &d.long, "long", 24*time.Hour, "warn of locks held for longer than this `DURATION`")
	cmd.Flags().BoolVar(&d.probes, "probe", true, "acquire a lock, to see whether the store grants it")
	a.JSONFlag(cmd)
	return cmd
}

// doctor is one run of "pawl doctor".
type doctor struct {
	*cli.App
	long   time.Duration
	probes bool
	store  *stores.Store
	worst  driver.Level
	trip   time.Duration // the median
	out    doctorJSON
}

// doctorJSON is the output of doctor --json. It obeys the rule for schema.
type doctorJSON struct {
	Schema    int           `json:"schema"`
	Store     string        `json:"store"`
	Level     string        `json:"level"` // of the worst finding: fine, warning or problem
	Findings  []findingJSON `json:"findings"`
	RoundTrip *tripJSON     `json:"round_trip,omitempty"`
	Held      int           `json:"held"`    // locks
	Waiting   int           `json:"waiting"` // waiters for all locks
	State     *report.State `json:"state,omitempty"`
}

type findingJSON struct {
	Check  string `json:"check"` // the subject of the check, in a word or two
	Server string `json:"server,omitempty"`
	Lock   string `json:"lock,omitempty"`
	Level  string `json:"level"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"`
}

type tripJSON struct {
	Median  float64 `json:"median_ms"`
	Slowest float64 `json:"slowest_ms"`
}

func (d *doctor) run(ctx context.Context) error {
	u, err := stores.Chosen(d.App.Store)
	if err != nil {
		return err
	}
	d.out = doctorJSON{Schema: report.Schema, Store: u.String(), Findings: []findingJSON{}}
	if d.store, err = d.Open(); err != nil {
		f := exit.As(err)
		if f.Code == exit.Misuse {
			return err
		}
		d.tell(driver.Finding{Check: "reachable", Level: driver.Problem, Text: f.Text, Do: cmp.Or(f.Advice, f.Hint, "see pawl --help")})
		if u.Scheme == "redlock" {
			ctx, cancel := context.WithTimeout(ctx, d.Connect)
			defer cancel()
			for _, f := range examineRedlock(ctx, u) {
				d.tell(f)
			}
		}
	} else {
		defer d.store.Close()
		d.out.Store = d.store.URL.String()
		d.examine(ctx)
	}
	d.Code, d.out.Level = int(d.worst), d.worst.String()
	return d.Print(d.out, d.describe)
}

// tell adds a finding.
func (d *doctor) tell(f driver.Finding) { d.tellOf("", f) }

// failed adds the finding of a request that failed with f.
func (d *doctor) failed(check, text string, f *exit.Failure) {
	d.tell(driver.Finding{Check: check, Level: driver.Problem, Text: text + ": " + f.Text, Do: cmp.Or(f.Advice, f.Hint)})
}

func (d *doctor) tellOf(lock string, f driver.Finding) {
	switch {
	case f.Level == driver.Fine:
	case f.Do == "":
		f.Do = "correct this, and run pawl doctor again"
	case strings.HasPrefix(f.Do, "check --store, which is"): // doctor has just checked it
		f.Do = "check that the server runs, and read its log"
	}
	d.worst = max(d.worst, f.Level)
	d.out.Findings = append(d.out.Findings, findingJSON{f.Check, f.Server, lock, f.Level.String(), f.Text, f.Do})
}

// examine runs all checks on an open store.
func (d *doctor) examine(ctx context.Context) {
	within := func(f func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, d.Connect)
		defer cancel()
		f(ctx)
	}
	within(func(ctx context.Context) {
		for _, f := range d.store.Wire.Examine(ctx) {
			d.tell(f)
		}
	})
	answers := false
	within(func(ctx context.Context) { answers = d.trips(ctx) })
	if !answers {
		return // the other checks would fail too
	}
	within(d.grants)
	d.locks(ctx)
}

// describe prints the findings for people.
func (d *doctor) describe(w io.Writer) error {
	const indent = "         "
	fmt.Fprintln(w, display.Printable(d.out.Store))
	counts := make(map[string]int)
	for _, f := range d.out.Findings {
		counts[f.Level]++
		text := f.Text
		if f.Server != "" {
			text = f.Server + ": " + text
		}
		label := map[string]string{"fine": "ok", "warning": "WARNING", "problem": "PROBLEM"}[f.Level]
		fmt.Fprintf(w, "%-8s %s\n", label, display.Wrap(display.Printable(text), indent))
		if f.Do != "" {
			fmt.Fprintf(w, "%s%s\n", indent, display.Wrap(display.Printable("-> "+f.Do), indent+"   "))
		}
	}
	var sum []string
	for _, level := range []string{"problem", "warning"} {
		switch n := counts[level]; n {
		case 0:
		case 1:
			sum = append(sum, "1 "+level)
		default:
			sum = append(sum, fmt.Sprintf("%d %ss", n, level))
		}
	}
	_, err := fmt.Fprintln(w, cmp.Or(strings.Join(sum, ", "), "nothing is wrong"))
	return err
}
