// SPDX-License-Identifier: Apache-2.0

// Package manual is "pawl hold", "pawl acquire", "pawl renew" and "pawl release": leases for people
// and scripts that do their work outside of pawl.
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

const acquireHelp = `Acquire takes a lease on NAME that outlives pawl, and prints its id and its
fencing token on one line. It is for scripts whose work is not one command:

  got=$(pawl acquire deploy --ttl 20s --why "release 7") || exit
  lease=${got% *} token=${got#* }
  trap 'pawl release deploy --lease "$lease"' EXIT
  …
  pawl renew deploy --lease "$lease" --ttl 20s || exit

Prefer pawl run: here nobody renews the lease between two commands, and nobody
stops the script when the lease ends. The store ends it --ttl after the grant or
the last renewal, and then lets the next one in. So before each step the script
has to check that its time is not over, which --json and pawl renew print; and
what it writes to should refuse a token smaller than one it has seen. If the
script dies, the lock stays held until the store ends the lease.

A --ttl over 30s needs a longer maximum at the store: see pawl max-ttl --help.

In some stores only the process that acquired a lease can renew it: see the row
Adopts of the table in docs/guarantees. Use pawl run there, or pawl hold in the
background.

pawl show prints the process that called pawl as the holder.

Exit codes:
  0        acquired, and the id is printed
  69       the store does not answer, or grants nothing after a restart
  71       pawl cannot print the id, and has released the lease
  75       busy: somebody else holds the lock
  78       the store has no such leases
  128+N    signal N ended it. A lease that it had is released, or ends after
           --ttl if the store does not answer
Others: see pawl run --help.`

// Commands returns hold, acquire, renew and release.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{holdCommand(a), acquireCommand(a), renewCommand(a), releaseCommand(a)}
}

func acquireCommand(a *cli.App) *cobra.Command {
	h := &acquire.Args{App: a, Verb: "acquire", Apart: true, BusyCode: exit.Busy}
	cmd := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Acquire a lease that outlives pawl, for a script",
		Long:  acquireHelp,
		Example: `  pawl acquire deploy --ttl 20s --why "release 7"
  pawl acquire deploy -n --json`,
		Args:              cli.Args(1, 1, "try: pawl acquire deploy --ttl 20s"),
		ValidArgsFunction: a.CompleteName,
		RunE: func(cmd *cobra.Command, args []string) error {
			h.Name = args[0]
			if err := h.Check(); err != nil {
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
	cli.DurationVar(fs, &h.TTL, "ttl", pawl.DefaultTTL, "`DURATION` after which the store ends the lease if it is not renewed")
	h.KindFlags(fs)
	h.PersonFlags(fs, "`TEXT` that tells others why you hold the lock")
	fs.BoolVarP(&h.Quiet, "quiet", "q", false, "print nothing while waiting, nor if the lock is busy")
	a.JSONFlag(cmd)
	return cmd
}

// leaseJSON is the output of acquire, renew and release with --json.
type leaseJSON struct {
	Schema  int       `json:"schema"`
	Store   string    `json:"store"`
	Name    string    `json:"name"`
	Lease   string    `json:"lease"`
	Token   uint64    `json:"token"`
	Expires time.Time `json:"expires,omitzero"` // the end of trust in the lease, in UTC and whole seconds
}

// take acquires a lease and prints its id. Once the id is printed, the lease outlives this process.
func take(a *cli.App, s *acquire.Session) (int, error) {
	if err := outlives(s.Store, s.Name); err != nil {
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
		return 0, err // Close releases the lease
	}
	s.Store.KeepLeases = true
	return 0, nil
}

func tellLease(a *cli.App, s *acquire.Session, lease *pawl.Lease) error {
	if err := s.Pending(); err != nil {
		return err
	}
	return a.Print(leaseJSON{report.Schema, s.Store.URL.String(), s.Name, lease.ID(), uint64(lease.Token()), wholeSecond(lease.Deadline())}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, lease.ID(), lease.Token())
		return err
	})
}

// wholeSecond returns the last whole second that is not after t.
func wholeSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// outlives returns an error if leases of the store end with the process that acquired them.
func outlives(s *stores.Store, name string) error {
	if caps := s.Wire.Caps(); caps.Adopts && caps.Expiry {
		return nil
	}
	return endsWithUs(name)
}

// noFiles refuses a file store. It is for use before opening the store, which would create the directory.
func noFiles(a *cli.App, name string) error {
	if u, err := stores.Chosen(a.Store); err == nil && u.Scheme == "file" {
		return endsWithUs(name)
	}
	return nil
}

func endsWithUs(name string) error {
	return exit.Fail(exit.Config, "in this store only the process that acquired a lease can renew it",
		fmt.Sprintf("use: pawl run %s -- COMMAND, or in the background: pawl hold %[1]s --for 10m --why TEXT", display.Quote(name)))
}
