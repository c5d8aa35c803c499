// SPDX-License-Identifier: Apache-2.0

// Package run is "pawl run", "pawl elect" and "pawl once", which run a command under a lock.
package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/cmd/pawl/internal/nested"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
)

// Commands returns run, elect and once.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{
		command(a, "run", &cobra.Command{
			Use:   "run NAME [flags] [--] COMMAND [ARG...]",
			Short: "Run a command while holding a lock",
			Long:  runHelp,
			Example: `  pawl run deploy -- make deploy
  pawl run nightly --no-wait -- ./backup.sh
  pawl run migrate --wait 5m --why "release 7" -- ./migrate up
  pawl run reports --max-hold 1h -- ./reports
  pawl run nightly -q -E 0 -n --min-hold 5m -- ./job
  pawl run backup --shared -- ./read-only-copy
  pawl run crawl --slots 3 -- ./crawl
  pawl run deploy --events fd:3 -- make deploy 3>events.json`,
		}),
		command(a, "elect", &cobra.Command{
			Use:   "elect NAME [flags] [--] COMMAND [ARG...]",
			Short: "Keep a command running in one place",
			Long:  electHelp,
			Example: `  pawl elect scheduler -- ./scheduler
  pawl elect scheduler --max-hold 1h --grace 30s -- ./scheduler`,
		}),
		command(a, "once", &cobra.Command{
			Use:   "once --per DURATION NAME [flags] [--] COMMAND [ARG...]",
			Short: "Run a command once per period, on one of many machines",
			Long:  onceHelp,
			Example: `  pawl once --per 24h nightly -- ./backup.sh
  pawl once --per 1h -q report -- ./report      in a crontab`,
		}),
	}
}

// command completes cmd. Cobra parses the flags before the name, and runArgs.parse the flags after it.
func command(a *cli.App, verb string, cmd *cobra.Command) *cobra.Command {
	r := newArgs(a, verb)
	r.flags(cmd)
	cmd.DisableFlagsInUseLine = true
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.CompleteName(cmd, args, word)
		}
		if cmd.Flags().Parse(args[1:]) == nil && cmd.Flags().NArg() == 0 && strings.HasPrefix(word, "-") {
			return flagWords(cmd.Flags(), word), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault // let the shell complete the command and its files
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := r.parse(cmd, args); errors.Is(err, pflag.ErrHelp) {
			return cmd.Help()
		} else if err != nil {
			return err
		}
		return run(r)
	}
	return cmd
}

func flagWords(fs *pflag.FlagSet, prefix string) (words []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if long := "--" + f.Name; strings.HasPrefix(long, prefix) {
			_, text := pflag.UnquoteUsage(f)
			words = append(words, cobra.CompletionWithDesc(long, text))
		}
	})
	return words
}

// run runs the command of a command line.
func run(args *runArgs) error {
	path, err := lookPath(args.command[0])
	if err != nil {
		return err
	}
	shown := display.PublicCommand(args.command)
	if args.publish {
		shown = display.CommandLine(args.command)
	}
	return acquire.Run(&args.Args, shown, func(s *acquire.Session) (int, error) {
		r := &runner{s, args}
		if args.Verb == "elect" {
			return r.terms(path)
		}
		return r.once(path)
	})
}

// runner is one run of "pawl run", "pawl elect" or "pawl once".
type runner struct {
	*acquire.Session
	args *runArgs
}

// once acquires the lock, runs the command, releases the lock, and returns the exit code.
func (r *runner) once(path string) (int, error) {
	lease, err := r.Acquire()
	if err != nil {
		return 0, err
	}
	r.Known = true
	least := driver.Now().Add(r.args.minHold)
	r.Tell(acquire.About("acquired", lease, nil))
	defer r.Forward()()
	s, status, err := r.work(lease, path)
	if err != nil {
		_ = lease.Release(context.Background())
		return 0, err
	}
	if s.asked.IsZero() && status.Signal != syscall.SIGINT { // nobody asked pawl to end
		left := least.Sub(driver.Now())
		why := r.keeps(status, left)
		if why != "" && left > waiting.Patience {
			r.Note(fmt.Sprintf("pawl: the command has ended; %q stays locked for %v (%s); INT or TERM releases it", r.Name, driver.ForPeople(left), why))
		}
		if why != "" {
			_ = r.Keep(lease, least) // if the lease is lost, release tells
		}
	}
	if err := s.release(status); err != nil {
		return 0, err
	}
	code := status.ExitCode()
	r.Tell(acquire.Event{Event: "exited", PID: s.job.PID(), Code: &code, Signal: int(status.Signal)})
	return code, nil
}

// work runs the command under the lease.
func (r *runner) work(lease *pawl.Lease, path string) (s *supervisor, status job.Status, err error) {
	if err := r.Pending(); err != nil {
		return nil, status, err
	}
	spec := &job.Spec{
		Path:     path,
		Args:     r.args.command,
		Env:      nested.Environ(lease, r.Name, r.Store.URL.String(), r.args.keepPasswords),
		Inherit:  lease.Files(),
		Private:  r.args.leftovers == releaseLeftovers,
		Grace:    r.args.grace,
		Deadline: lease.Deadline(),
	}
	j, err := job.Start(spec)
	if err != nil {
		return nil, status, exit.Fail(exit.System, err.Error(), startHint(err))
	}
	defer func() {
		r.Keyboard = j.Close()
		r.Interrupted = s.gotINT && status.Signal == syscall.SIGINT
	}()
	started := acquire.About("started", lease, nil)
	started.PID = j.PID()
	r.Tell(started)
	s = &supervisor{runner: r, lease: lease, job: j, began: time.Now(), deadline: spec.Deadline}
	status, err = s.supervise()
	return s, status, err
}

// lookPath returns the executable file of a command.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if _, set := os.LookupEnv("PATH"); !set && errors.Is(err, exec.ErrNotFound) && !strings.Contains(name, "/") {
		for _, dir := range []string{"/bin", "/usr/bin"} { // the default of execvp(3)
			if there, ok := exec.LookPath(dir + "/" + name); ok == nil {
				return there, nil
			}
		}
	}
	shown := display.Shorten(strings.ToValidUTF8(name, "\uFFFD"), 200) // keep the line short, so that users see the advice at its end
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return "", exit.Fail(job.CannotRun, name+" is in the current directory", "type ./"+name)
	case errors.Is(err, exec.ErrNotFound) && strings.ContainsAny(name, " \t;&|<>$"):
		return "", exit.Fail(job.NotFound, shown, "for a shell command, use: sh -c "+display.Quote(name))
	case errors.Is(err, exec.ErrNotFound):
		return "", exit.Fail(job.ExecError(shown, fs.ErrNotExist))
	}
	return "", exit.Fail(job.ExecError(name, err))
}

// startHint says what to do if the system could not start a process. It compares texts, because the
// guard's errors come through a pipe as text.
func startHint(err error) string {
	is := func(n syscall.Errno) bool { return strings.HasSuffix(err.Error(), n.Error()) }
	switch {
	case is(syscall.EMFILE), is(syscall.ENFILE):
		return "too many files are open: see ulimit -n"
	case is(syscall.EAGAIN):
		return "too many processes or threads: see ulimit -u, and the limit of the container"
	case is(syscall.ENOMEM):
		return "there is too little memory: see free, and ulimit -v"
	case is(syscall.E2BIG):
		return "the environment and the arguments are too large: see env | wc -c, and getconf ARG_MAX; one variable may have 128 KiB"
	case is(syscall.ENOENT):
		return "are /dev and /proc mounted?"
	}
	return "try again"
}
