// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
)

// runArgs is the command line of "pawl run", "pawl elect", "pawl once", "pawl hold" or "pawl
// acquire".
type runArgs struct {
	elect   bool
	turns   bool          // of once
	holdFor time.Duration // of hold, which has no command
	apart   bool          // of acquire, whose lease outlives the process
	name    string
	command []string

	store    string
	connect  time.Duration
	wait     time.Duration // negative: for ever
	noWait   bool
	ttl      time.Duration
	grace    time.Duration
	maxHold  time.Duration
	minHold  time.Duration
	per      time.Duration // of once
	shared   bool
	slots    int
	why, who string
	json     bool
	events   string
	quiet    bool
	busyCode int

	leftovers     leftovers
	keepPasswords bool
	inDeadlock    bool // wait also there
	publish       bool
}

const defaultGrace = 10 * time.Second

func (a *runArgs) flags(fs *pflag.FlagSet) {
	a.wait, a.busyCode, a.leftovers = cli.ForEver, exit.Busy, waitLeftovers
	fs.VarP((*cli.StoreFlag)(&a.store), "store", "s", "`URL` of the store (default $PAWL_STORE, or else the file store)")
	plain := !a.elect && !a.turns
	if a.turns {
		a.wait, a.busyCode = 0, 0
		cli.DurationVar(fs, &a.per, "per", 0, "run it once in each turn of this `DURATION` (required)")
	}
	if plain {
		a.waitFlags(fs)
	}
	cli.DurationVar(fs, &a.ttl, "ttl", pawl.DefaultTTL, "`DURATION` after which others get the lock if this machine dies")
	cli.DurationVar(fs, &a.grace, "grace", defaultGrace, "`DURATION` between TERM and KILL when the lock is lost (a third of --ttl if that is less)")
	if !a.turns {
		cli.DurationVar(fs, &a.maxHold, "max-hold", 0, "have the lock for this `DURATION` at most: TERM comes --grace before")
	}
	if plain {
		cli.DurationVar(fs, &a.minHold, "min-hold", 0, "have the lock for this `DURATION` at least, also if the command ends before")
	}
	fs.Var(&a.leftovers, "leftovers", "what the command leaves running when it ends: `HOW` is wait (keep the lock until it ends), kill, or release (it goes on without the lock)")
	if plain {
		a.kindFlags(fs)
	}
	fs.StringVar(&a.why, "why", "", "`TEXT` for whoever meets the lock")
	fs.StringVar(&a.who, "who", os.Getenv("PAWL_WHO"), "`TEXT` to show instead of user and host (default $PAWL_WHO)")
	fs.BoolVar(&a.publish, "publish-command-line", false, "show whoever meets the lock the whole command line, not just the program")
	fs.BoolVar(&a.json, "json", false, "tell events as JSON lines on stderr, instead of text")
	fs.StringVar(&a.events, "events", "", "write events as JSON lines to `FILE`, or fd:N")
	fs.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing while waiting, nor when it is busy")
	fs.BoolVar(&a.keepPasswords, "keep-passwords", false, "let the command inherit $PAWL_REDIS_PASSWORD and its kind")
	cli.ConnectFlag(fs, &a.connect)
	if !a.elect {
		fs.IntVarP(&a.busyCode, "busy-code", "E", a.busyCode, "exit code `N` if the lock was busy")
	}
}

func (a *runArgs) kindFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&a.shared, "shared", false, "share the lock with others that share it, as readers do")
	fs.IntVar(&a.slots, "slots", 0, "let `N` have the lock at a time; everybody must give the same number")
}

// verb is the word that the command line begins with.
func (a *runArgs) verb() string {
	switch {
	case a.elect:
		return "elect"
	case a.turns:
		return "once"
	case a.holdFor > 0:
		return "hold"
	case a.apart:
		return "acquire"
	}
	return "run"
}

// parseRun parses what follows "run". Flags are looked for up to the first word
// of the command: before the name, and once more after it. The command's own
// words are never looked at.
func parseRun(args []string) (*runArgs, error) {
	a := new(runArgs)
	return a, a.parse(args)
}

func (a *runArgs) parse(args []string) error {
	fs := newRunFlags(a)
	if err := fs.Parse(args); err != nil {
		return a.flagError(fs, args, err)
	}
	words := fs.Args()
	if len(words) == 0 {
		return exit.Usage("no name and no command", "try: pawl "+a.verb()+" deploy -- make deploy")
	}
	dash := fs.ArgsLenAtDash() == 0
	a.name, words = words[0], words[1:]
	if dash {
		// "run -- NAME -- CMD": for a name that looks like a flag. Any other was more
		// likely forgotten, and the command's first word must not be taken for it.
		if len(words) > 0 && words[0] == "--" {
			words = words[1:]
		} else if len(words) > 0 && !strings.HasPrefix(a.name, "-") {
			return exit.Usage(`there is no name before "--"`, "try: pawl "+a.verb()+" NAME -- "+display.Shorten(display.Quote(a.name), 40)+" …")
		}
	} else if len(words) > 0 {
		if err := fs.Parse(words); err != nil {
			return a.flagError(fs, words, err)
		}
		words = fs.Args()
	}
	a.command = words
	return a.check(fs)
}

func newRunFlags(a *runArgs) *pflag.FlagSet {
	fs := pflag.NewFlagSet(a.verb(), pflag.ContinueOnError)
	fs.SetInterspersed(false)
	fs.Usage = func() {}
	fs.SortFlags = false
	a.flags(fs)
	return fs
}

// flagError says what to type instead. pflag's words are kept: they name the
// flag.
func (a *runArgs) flagError(fs *pflag.FlagSet, args []string, err error) error {
	help := "see pawl " + a.verb() + " --help"
	var missing *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &missing):
		help = cli.LikeFlag(err, fs) + help
		if !slices.Contains(args, "--") {
			help += `; put "--" before a command that begins with "-"`
		}
		return exit.Usage(display.Shorten(err.Error(), 200), help)
	case errors.Is(err, cli.ErrNegative) && errors.As(err, &value) && value.GetFlag().Name == "wait":
		return exit.Usage(display.Shorten(err.Error(), 200), "leave --wait out to wait for ever, or use -n not to wait")
	case errors.As(err, &value) && (value.GetFlag().Value.Type() == "duration"):
		return exit.Usage(display.Shorten(err.Error(), 200), "durations look like 500ms, 30s, 5m or 1h30m")
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "int":
		return exit.Usage(fmt.Sprintf("--%s %q is no number", value.GetFlag().Name, display.Shorten(value.GetValue(), 40)), "use a whole number, such as 3")
	}
	return exit.Usage(display.Shorten(err.Error(), 200), help)
}

// check looks at what the parser cannot.
func (a *runArgs) check(fs *pflag.FlagSet) error {
	if err := a.checkLease(fs); err != nil {
		return err
	}
	if len(a.command) == 0 {
		return exit.Usage(fmt.Sprintf("no command to run under %q", a.name),
			"put it behind the name: pawl "+a.verb()+" "+display.Quote(a.name)+" -- make deploy")
	}
	if a.command[0] == "" {
		return exit.Usage("the command's name is empty", "is a variable of your script empty?")
	}
	if a.busyCode < 0 || a.busyCode > 255 {
		return exit.Usage(fmt.Sprintf("--busy-code %d is no exit code", a.busyCode), "use 0 to 255")
	}
	if err := a.checkKind(fs); err != nil {
		return err
	}
	if err := a.checkTurn(); err != nil {
		return err
	}
	return a.checkTimes(fs)
}

// checkLease looks at what is said of the lease, with or without a command.
func (a *runArgs) checkLease(fs *pflag.FlagSet) error {
	if err := stores.CheckName(a.name, a.store); err != nil {
		return err
	}
	if a.noWait {
		if fs.Changed("wait") && a.wait != 0 {
			return exit.Usage("--no-wait and --wait contradict each other", "use one of them")
		}
		a.wait = 0
	}
	if len(a.why) > 512 || strings.ContainsRune(a.why, 0) {
		return exit.Usage("--why is longer than 512 bytes, or contains a NUL", "say it shorter")
	}
	if a.ttl < driver.MinTTL {
		return exit.Usage(fmt.Sprintf("--ttl %v is too short", a.ttl),
			fmt.Sprintf("use at least %v; 10s to 60s suits most work", driver.MinTTL))
	}
	return nil
}

func (a *runArgs) checkKind(fs *pflag.FlagSet) error {
	if a.shared && fs.Changed("slots") {
		return exit.Usage("--shared and --slots contradict each other", "use one of them")
	}
	if fs.Changed("slots") && a.slots < 1 {
		return exit.Usage(fmt.Sprintf("--slots %d: so many cannot have the lock", a.slots), "use 1 or more")
	}
	return nil
}

func (a *runArgs) checkTimes(fs *pflag.FlagSet) error {
	if a.maxHold < 0 || fs.Changed("max-hold") && a.maxHold < driver.MinTTL {
		return exit.Usage(fmt.Sprintf("--max-hold %v is too short", a.maxHold), "use something like 1h, or leave it out")
	}
	if a.maxHold > 0 && a.minHold >= a.maxHold {
		return exit.Usage(fmt.Sprintf("--min-hold %v is not shorter than --max-hold %v", a.minHold, a.maxHold), "use less, or leave it out")
	}
	// The command is asked to stop one grace before the end. It must have some
	// time to work before that, also when one renewal comes late.
	limit, what := a.ttl, "--ttl"
	if a.maxHold > 0 && a.maxHold < limit {
		limit, what = a.maxHold, "--max-hold"
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

func (a *runArgs) waitFlags(fs *pflag.FlagSet) {
	fs.VarP((*cli.Duration)(&a.wait), "wait", "w", "wait at most this `DURATION` for the lock, such as 5m; 5 is five seconds (default for ever, as long as the store answers)")
	fs.BoolVarP(&a.noWait, "no-wait", "n", false, "do not wait: the same as --wait 0")
	fs.BoolVar(&a.inDeadlock, "wait-in-deadlock", false, "keep waiting in a deadlock")
}
