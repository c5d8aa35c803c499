// SPDX-License-Identifier: Apache-2.0

// Package manual is "pawl hold", "pawl acquire", "pawl renew" and "pawl release": leases of people
// and scripts, which do their work outside of pawl.
package manual

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/acquire"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/cmd/pawl/internal/waiting"
)

const acquireHelp = `Take a lease on NAME that outlives pawl, and print its id and its token in one
line. It is for scripts that cannot wrap their work in a command. They renew it
with "pawl renew" and give it back with "pawl release":

  got=$(pawl acquire deploy --ttl 20s --why "release 7") || exit
  lease=${got% *} token=${got#* }
  trap 'pawl release deploy --lease "$lease"' EXIT
  …
  pawl renew deploy --lease "$lease" --ttl 20s || exit

This is weaker than "pawl run": nobody renews the lease, and nobody stops the
script when it has ended. The store ends it --ttl after it has granted it, or
after the last renewal, and lets the next one in. So the script has to be sure
before each step that its time is not over. --json prints when that is, and so
does "pawl renew". And whatever it writes to should refuse a token that is
smaller than one that it has seen. A script that dies keeps others out until
the store ends the lease.

A --ttl longer than 30s needs a longer MaxTTL at the store: see "pawl max-ttl".

It needs a store that ends leases by itself, and by nothing else: Redis (one
server or a cluster), PostgreSQL or etcd. It refuses files and ZooKeeper, where
a lease ends with the process, redlock, where nobody but the process that has
got a lease can tell whether a majority still has it, and ?mode=efficiency. Use
"pawl run" there, or "pawl hold" in the background.

"pawl show" has the process that has called pawl as the holder.

Exit codes:
  0        the lease is there, and its id is printed
  71       its id cannot be printed, so it is given back
  128+N    ended by signal N: if it had got the lease, it gives that back, or
           leaves it to the store to end it if the store does not answer
  69       the store cannot be reached, or grants nothing yet after a restart
  75       busy: somebody else has the lock
  78       the store cannot have such leases
The others are those of "pawl run".`

// Commands are those that take a lease and leave the work to somebody else.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{holdCommand(a), acquireCommand(a), renewCommand(a), releaseCommand(a)}
}

func acquireCommand(a *cli.App) *cobra.Command {
	h := &acquire.Args{App: a, Verb: "acquire", Apart: true, Wait: cli.ForEver, BusyCode: exit.Busy}
	cmd := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Take a lease for a script, which renews and releases it",
		Long:  acquireHelp,
		Example: `  pawl acquire deploy --ttl 20s --why "release 7"
  pawl acquire deploy -n --json`,
		Args:              cli.Args(1, 1, "try: pawl acquire deploy --ttl 20s"),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			h.Name = args[0]
			if err := h.Check(cmd.Flags()); err != nil {
				return err
			}
			if err := h.CheckKind(cmd.Flags()); err != nil {
				return err
			}
			if err := noFiles(a, h.Name); err != nil {
				return err
			}
			return acquire.Run(h, waiting.AcquireCommand, func(s *acquire.Session) (int, error) { return take(a, s) })
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	h.WaitFlags(fs)
	cli.DurationVar(fs, &h.TTL, "ttl", pawl.DefaultTTL, "`DURATION` after which the store ends the lease, unless it is renewed")
	h.KindFlags(fs)
	h.PersonFlags(fs, "`TEXT` for whoever meets the lock")
	fs.BoolVarP(&h.Quiet, "quiet", "q", false, "say nothing while waiting, nor when it is busy")
	a.JSONFlag(cmd)
	return cmd
}

// leaseJSON is what acquire, renew and release print.
type leaseJSON struct {
	Schema  int       `json:"schema"`
	Store   string    `json:"store"`
	Name    string    `json:"name"`
	Lease   string    `json:"lease"`
	Token   uint64    `json:"token"`
	Expires time.Time `json:"expires,omitzero"` // until when it is certainly held, in UTC and whole seconds
}

// take takes a lease and leaves it, once somebody has been told of it.
func take(a *cli.App, s *acquire.Session) (int, error) {
	if err := outlives(s.Store); err != nil {
		return 0, err
	}
	if out, ok := a.Stdout.(*os.File); ok && display.ClosedOutput(out) {
		return 0, exit.Fail(exit.System, "stdout is closed, so the id of the lease would be lost", fmt.Sprintf("use: got=$(pawl acquire %s)", display.Quote(s.Name)))
	}
	lease, err := s.Acquire()
	if err != nil {
		return 0, err
	}
	if err := tellLease(a, s, lease); err != nil {
		return 0, err // Close gives it back
	}
	s.Store.KeepLeases = true
	return 0, nil
}

func tellLease(a *cli.App, s *acquire.Session, lease *pawl.Lease) error {
	if err := s.Pending(); err != nil {
		return err
	}
	return a.Print(leaseJSON{report.Schema, s.Store.URL.String(), s.Name, lease.ID(), uint64(lease.Token()), whole(lease.Deadline())}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, lease.ID(), lease.Token())
		return err
	})
}

// whole returns the last whole second that is not after t.
func whole(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// outlives returns an error if leases of the store end with the process that takes them.
func outlives(s *stores.Store) error {
	if caps := s.Wire.Caps(); caps.Adopts && caps.Expiry {
		return nil
	}
	return endsWithUs(s.URL.Scheme, "NAME")
}

// noFiles refuses a directory before it is made.
func noFiles(a *cli.App, name string) error {
	if u, err := stores.Chosen(a.Store); err == nil && u.Scheme == "file" {
		return endsWithUs(u.Scheme, display.Quote(name))
	}
	return nil
}

func endsWithUs(scheme, name string) error {
	text := "in this store a lease ends with the process that has taken it"
	switch scheme {
	case "file":
		text = "a lock on files ends with the process that has taken it"
	case "redis", "rediss", "unix":
		text = "with ?mode=efficiency a lease is renewed by the process that has taken it"
	case "redlock":
		text = "with redlock only the process that has taken a lease knows whether a majority still has it"
	case "zk", "zks":
		text = "in ZooKeeper a lease ends with the session of the process that has taken it"
	}
	return exit.Fail(exit.Config, text, fmt.Sprintf("use: pawl run %s -- COMMAND, or in the background: pawl hold %[1]s --for 10m --why TEXT", name))
}
