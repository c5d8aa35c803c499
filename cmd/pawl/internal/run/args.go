// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver"
)

// runArgs is the command line of "pawl run", "pawl elect" or "pawl once".
type runArgs struct {
	acquire.Args
	command []string

	grace     time.Duration
	minHold   time.Duration
	per       time.Duration // once only
	leftovers string

	keepPasswords bool
	publish       bool
}

func newArgs(a *cli.App, verb string) *runArgs {
	return &runArgs{Args: acquire.Args{App: a, Verb: verb}}
}

const defaultGrace = 10 * time.Second

func (a *runArgs) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.SortFlags = false
	a.Wait.For, a.BusyCode, a.leftovers = cli.ForEver, exit.Busy, waitLeftovers
	plain := a.Verb == "run"
	if a.Verb == "once" {
		a.Wait.For, a.BusyCode = 0, 0
		cli.DurationVar(fs, &a.per, "per", 0, "run the command once in each period of this `DURATION` (required)")
		fs.VarP((*cli.Duration)(&a.Wait.For), "wait", "w", "wait at most this `DURATION` for the lock, or for a store that grants nothing yet (default: do not wait)")
	}
	if plain {
		a.WaitFlags(fs)
	}
	cli.DurationVar(fs, &a.TTL, "ttl", pawl.DefaultTTL, "`DURATION` after which others get the lock if this machine dies")
	cli.DurationVar(fs, &a.grace, "grace", defaultGrace, "`DURATION` between TERM and KILL when the lock is lost; a third of --ttl if that is less")
	if a.Verb != "once" {
		cli.DurationVar(fs, &a.MaxHold, "max-hold", 0, "hold the lock for at most this `DURATION`; TERM comes --grace earlier")
	}
	if plain {
		cli.DurationVar(fs, &a.minHold, "min-hold", 0, "hold the lock for at least this `DURATION`, even if the command ends earlier")
	}
	cli.ChoiceVar(cmd, &a.leftovers, "leftovers", "`WHAT` to do with processes that the command leaves running: wait for them, kill them, or release the lock", waitLeftovers, killLeftovers, releaseLeftovers)
	if plain {
		a.KindFlags(fs)
	}
	a.PersonFlags(fs, "`TEXT` that tells others why you hold the lock")
	fs.BoolVar(&a.publish, "publish-command-line", false, "show others the whole command line")
	a.EventFlags(fs)
	fs.BoolVarP(&a.Quiet, "quiet", "q", false, "print nothing while waiting, nor if the lock is busy")
	fs.BoolVar(&a.keepPasswords, "keep-passwords", false, "let the command inherit the passwords of stores")
	if a.Verb != "elect" {
		fs.IntVarP(&a.BusyCode, "busy-code", "E", a.BusyCode, "exit code `N` if the lock is busy")
	}
}

// parse parses the name, the flags after it, and the command. Cobra has parsed the flags before the name.
// Everything from the first word of the command on belongs to the command.
func (a *runArgs) parse(cmd *cobra.Command, words []string) error {
	fs := cmd.Flags()
	if len(words) == 0 {
		return exit.Usage("the name and the command are missing", "try: pawl "+a.Verb+" deploy -- make deploy")
	}
	dash := fs.ArgsLenAtDash() == 0
	a.Name, words = words[0], words[1:]
	if dash {
		// "run -- NAME -- CMD" is for a name that looks like a flag. Otherwise the user
		// has more likely forgotten the name, and the first word belongs to the command.
		if len(words) > 0 && words[0] == "--" {
			words = words[1:]
		} else if len(words) > 0 && !strings.HasPrefix(a.Name, "-") {
			return exit.Usage(`there is no name before "--"`, "try: pawl "+a.Verb+" NAME -- "+display.Shorten(display.Quote(a.Name), 40)+" …")
		}
	} else if len(words) > 0 {
		if err := fs.Parse(words); err != nil {
			return cli.FlagError(cmd, err)
		}
		words = fs.Args()
	}
	if help, err := fs.GetBool("help"); err == nil && help {
		return pflag.ErrHelp
	}
	a.command = words
	return a.check(fs)
}

// check checks the arguments that the flag parser cannot check.
func (a *runArgs) check(fs *pflag.FlagSet) error {
	if err := a.Check(); err != nil {
		return err
	}
	if len(a.command) == 0 {
		return exit.Usage(fmt.Sprintf("no command to run under %q", a.Name),
			"put it after the name: pawl "+a.Verb+" "+display.Quote(a.Name)+" -- make deploy")
	}
	if a.command[0] == "" {
		return exit.Usage("the command's name is empty", "is a variable in your script unset?")
	}
	if a.BusyCode < 0 || a.BusyCode > 255 {
		return exit.Usage(fmt.Sprintf("--busy-code %d is not an exit code", a.BusyCode), "use 0 to 255")
	}
	if err := a.CheckKind(fs); err != nil {
		return err
	}
	if err := a.checkTurn(); err != nil {
		return err
	}
	return a.checkTimes(fs)
}

func (a *runArgs) checkTimes(fs *pflag.FlagSet) error {
	if a.MaxHold < 0 || fs.Changed("max-hold") && a.MaxHold < driver.MinTTL {
		return exit.Usage(fmt.Sprintf("--max-hold %v is too short", a.MaxHold), "use something like 1h, or leave it out")
	}
	if a.MaxHold > 0 && a.minHold >= a.MaxHold {
		return exit.Usage(fmt.Sprintf("--min-hold %v is not shorter than --max-hold %v", a.minHold, a.MaxHold), "use less, or leave it out")
	}
	// The command gets TERM so long before the end of the lease. It must have time to work
	// before that, even if a renewal comes late.
	limit, what := a.TTL, "--ttl"
	if a.MaxHold > 0 && a.MaxHold < limit {
		limit, what = a.MaxHold, "--max-hold"
	}
	if !fs.Changed("grace") {
		a.grace = min(defaultGrace, limit/3)
	}
	if a.grace <= 0 || a.grace >= limit/2 {
		return exit.Usage(fmt.Sprintf("--grace %v does not fit %s %v", a.grace, what, limit),
			fmt.Sprintf("use less than half of it, or a larger %s", what))
	}
	return nil
}
