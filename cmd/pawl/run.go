// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/cmd/pawl/internal/nested"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
	"github.com/pawl-go/pawl/driver"
)

func runCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
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
		DisableFlagParsing:    true, // see parseRun
		DisableFlagsInUseLine: true,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return completeRun(a, cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := parseRun(args)
			if errors.Is(err, pflag.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			return runWith(a, r, (*runner).run)
		},
	}
	new(runArgs).flags(cmd.Flags()) // for the help text only
	cmd.Flags().SortFlags = false
	return cmd
}

func runWith(a *cli.App, args *runArgs, do func(*runner) (int, error)) (err error) {
	r := &runner{runArgs: args, stderr: a.Stderr}
	a.Code, err = do(r)
	a.Interrupted, a.Keyboard = r.interrupted, r.keyboard
	return err
}

// runWith is one "pawl run", "pawl elect", "pawl once", "pawl hold" or "pawl acquire".
type runner struct {
	*runArgs
	stderr  io.Writer
	store   *stores.Store
	events  *events
	signals chan os.Signal

	trouble     atomic.Pointer[error] // of the last renewal that failed
	opens       atomic.Int64          // when the store grants again, in Unix nanoseconds
	news        chan struct{}         // gets something when that has changed, or when the store is silent
	waiting     atomic.Bool           // for the lock
	known       bool                  // the store has told who has the lock, or that we have it
	interrupted bool                  // INT has ended us while we waited, or the command through us
	keyboard    bool                  // Ctrl-C has ended the command in the foreground
}

// run returns the command's exit code, or a failure.
func (r *runner) run() (int, error) {
	path, err := lookPath(r.command[0])
	if err != nil {
		return 0, err
	}
	shown := display.PublicCommand(r.command)
	if r.publish {
		shown = display.CommandLine(r.command)
	}
	return r.telling(shown, func() (int, error) {
		if r.elect {
			return r.terms(path)
		}
		return r.once(path)
	})
}

// telling calls do with events and store open, and tells of its failure. Others are shown
// the command.
func (r *runner) telling(command string, do func() (int, error)) (int, error) {
	if err := r.openEvents(); err != nil {
		return 0, err
	}
	defer r.events.close()
	code, err := r.opened(command, do)
	if err == nil {
		return code, nil
	}
	f := exit.As(err)
	if f.Kind == exit.Kinds[exit.Busy] {
		f.Code = r.busyCode
		f.Told = r.quiet
	}
	r.tell(event{Event: "failed", Kind: f.Kind, Code: &f.Code, Error: f.Error()})
	f.Told = f.Told || r.json
	return 0, f
}

func (r *runner) openEvents() error {
	var sinks []io.Writer
	if r.json {
		sinks = append(sinks, r.stderr)
	}
	if r.runArgs.events != "" {
		f, err := openEvents(r.runArgs.events)
		if err != nil {
			return err
		}
		sinks = append(sinks, f)
	}
	r.events = newEvents(sinks...)
	return nil
}

func (r *runner) tell(e event) {
	e.Name = r.name
	r.events.tell(e)
}

// opened calls do with an open store, and with signals that go to r.
func (r *runner) opened(command string, do func() (int, error)) (int, error) {
	opts := &pawl.Options{
		TTL:      r.ttl,
		Holder:   pawl.Holder{Who: r.who, PID: r.pid(), Command: command},
		Observer: pawl.Observer{Suspect: r.suspect, Closed: r.closed, Stepped: r.stepped, Silent: r.silent},
	}
	r.news = make(chan struct{}, 1)
	var err error
	if r.store, err = stores.Open(r.runArgs.store, r.connect, opts, true); err != nil {
		return 0, err
	}
	defer r.store.Close()

	keepWriting()
	r.signals = make(chan os.Signal, 16)
	listen(r.signals, ending)
	defer signal.Stop(r.signals)
	return do()
}

// once acquires, runs, releases.
func (r *runner) once(path string) (int, error) {
	lease, err := r.acquire()
	if err != nil {
		return 0, err
	}
	r.known = true
	least := driver.Now().Add(r.minHold)
	r.tell(event{Event: "acquired", Lease: lease.ID(), Token: uint64(lease.Token())})
	listen(r.signals, others)
	defer unlisten()
	s, status, err := r.work(lease, path)
	if err != nil {
		_ = lease.Release(context.Background())
		return 0, err
	}
	if s.asked.IsZero() && status.Signal != syscall.SIGINT { // nobody wants it to end
		left := least.Sub(driver.Now())
		why := r.keeps(status, left)
		if why != "" && left > waiting.Patience && !r.quiet && !r.json {
			r.say(fmt.Sprintf("pawl: the command has ended; %q is kept for %v (%s), a signal gives it back", r.name, driver.ForPeople(left), why))
		}
		if why != "" {
			_ = r.keep(lease, least) // release tells of a loss
		}
	}
	if err := s.release(status); err != nil {
		return 0, err
	}
	code := status.ExitCode()
	r.tell(event{Event: "exited", PID: s.job.PID(), Code: &code, Signal: int(status.Signal)})
	return code, nil
}

func (r *runner) suspect(e pawl.Event) {
	if e.Err != nil {
		r.trouble.Store(&e.Err)
	}
	r.tell(event{Event: "suspect", Lease: e.Lease, Token: uint64(e.Token), Error: errorText(e.Err)})
}

// closed notes that the store grants nothing for a while.
func (r *runner) closed(e pawl.Event) {
	r.opens.Store(time.Now().Add(e.Left).UnixNano())
	r.wake()
}

// wake makes a waiter look once more, and tell.
func (r *runner) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// quarantine returns for how long the store grants nothing, as far as it is known.
func (r *runner) quarantine() time.Duration { return max(0, time.Until(time.Unix(0, r.opens.Load()))) }

// silent tells that the store is away: what was said of the holder, and of the next in line, may be no
// longer true.
func (r *runner) silent(e pawl.Event) {
	text := fmt.Sprintf("%s does not answer, for %v now", e.Server, e.Waited.Round(time.Second))
	r.tell(event{Event: "silent", Error: text})
	if r.waiting.Load() {
		r.wake() // to look, and to tell what it sees
		return
	}
	if !r.quiet && !r.json {
		r.say("pawl: warning: " + text)
	}
}

func (r *runner) stepped(e pawl.Event) {
	what, so := "forward", "locks may have ended early"
	if e.Step < 0 {
		what, so = "back", "locks of crashed holders last for so much longer, unless they are broken"
	}
	text := fmt.Sprintf("the clock of %s was set %s by %v: %s", e.Server, what, e.Step.Abs().Round(time.Millisecond), so)
	r.tell(event{Event: "clock", Error: text})
	if !r.json {
		r.say("pawl: warning: " + text)
	}
}

// work runs the command under the lease.
func (r *runner) work(lease *pawl.Lease, path string) (s *supervisor, status job.Status, err error) {
	select {
	case sig := <-r.signals:
		if err := r.signalled(sig); err != nil {
			return nil, status, err
		}
	default:
	}
	spec := &job.Spec{
		Path:     path,
		Args:     r.command,
		Env:      nested.Environ(lease, r.name, r.store.URL.String(), r.keepPasswords),
		Inherit:  lease.Files(),
		Private:  r.leftovers == releaseLeftovers,
		Grace:    r.grace,
		Deadline: lease.Deadline(),
	}
	j, err := job.Start(spec)
	if err != nil {
		return nil, status, exit.Fail(exit.System, err.Error(), startHint(err))
	}
	defer func() {
		r.keyboard = j.Close()
		r.interrupted = s.interrupted && status.Signal == syscall.SIGINT
	}()
	r.tell(event{Event: "started", Lease: lease.ID(), Token: uint64(lease.Token()), PID: j.PID()})
	s = &supervisor{runner: r, lease: lease, job: j, began: time.Now(), deadline: spec.Deadline}
	status, err = s.supervise()
	return s, status, err
}

// released tells of the release, which may have failed.
func (r *runner) released(lease *pawl.Lease, err error) {
	r.tell(event{Event: "released", Lease: lease.ID(), Token: uint64(lease.Token()), Error: errorText(err)})
	if err != nil && !r.json {
		select { // the process is about to end, but does not wait for a reader for ever
		case <-r.say(fmt.Sprintf("pawl: warning: %s; the store ends the lease when its time is over",
			strings.TrimPrefix(err.Error(), "pawl: "))):
		case <-time.After(time.Second):
		}
	}
}

// lost returns the failure for a lost lease.
func (r *runner) lost(err error, then string) error {
	text := err.Error()
	if l := new(pawl.LostError); errors.As(err, &l) {
		text = l.Error()
	}
	return exit.Fail(exit.Lost, fmt.Sprintf("%q: %s; %s", r.name, text, then), "see: "+r.store.Show(r.name))
}

// signalled returns the failure of a signal that ends us while there is no command.
// It returns nil for one of the others, which was for the command of the term before.
func (r *runner) signalled(sig os.Signal) error {
	if !slices.Contains(ending, sig) {
		return nil
	}
	n, _ := sig.(syscall.Signal)
	r.interrupted = n == syscall.SIGINT
	return &exit.Failure{Code: 128 + int(n), Kind: "interrupted", Text: sig.String(), Told: true}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// say writes a line on stderr. The result is closed when that is done. Nothing
// that matters may wait for it: with Ctrl-S on the terminal, or a full pipe, it
// takes for ever.
func (r *runner) say(line string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fmt.Fprintln(r.stderr, display.Printable(line))
	}()
	return done
}
