// SPDX-License-Identifier: Apache-2.0

// Package command builds the root command, the help and the manual pages.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/admin"
	"github.com/pawl-go/pawl/cmd/pawl/internal/bench"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/doctor"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/cmd/pawl/internal/manual"
	"github.com/pawl-go/pawl/cmd/pawl/internal/run"
	"github.com/pawl-go/pawl/cmd/pawl/internal/serve"
	"github.com/pawl-go/pawl/cmd/pawl/internal/show"
	"github.com/pawl-go/pawl/cmd/pawl/internal/top"
	"github.com/pawl-go/pawl/driver/storekit"
)

func newRoot(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Only one of me at a time",
		Long: `Pawl runs a command while it holds a lock, and shows and breaks locks.

Locks live in a store. The default is a directory of your own on this machine.
--store or $PAWL_STORE names another store by its URL:

  file:                    the default directory
  file:///var/lib/pawl     a directory, by its absolute path
  file:///…?shared=true    a directory that several users can write to; each of
                           them can block or end every lock. Create it with
                           install -d -m 1777 DIR. A reboot empties /run and
                           /var/lock: there, use a line in /etc/tmpfiles.d:
                           d /run/lock/pawl 1777
  redis://host:6379/0      a Redis server, or a node of a cluster; ?addr= names
                           more nodes, ?master_set= a master behind sentinels;
                           rediss:// uses TLS, unix:///path a socket
  redlock://h1,h2,h3       three or five independent Redis servers, of which a
                           majority has to be up
  zk://h1,h2/root          ZooKeeper; zks:// uses TLS
  etcd://h1:2379/prefix    etcd; etcds:// uses TLS
  postgres://user@host/db  PostgreSQL

A password can be in the URL, in the file that ?password_file= names, or in
$PAWL_REDIS_PASSWORD, $PAWL_ZK_PASSWORD, $PAWL_ETCD_PASSWORD or
$PAWL_POSTGRES_PASSWORD.`,
		Example: `  pawl run deploy -- make deploy            wait for the lock, run, release it
  pawl run nightly -n -- ./backup.sh        skip the job if it still runs
  pawl once --per 24h nightly -- ./backup   once a day, on one of many machines:
                                            pawl stays running for nine tenths
                                            of the period
  pawl hold deploy --for 10m --why "moves"  hold the lock by hand
  pawl acquire deploy --ttl 20s             take a lease in a script
  pawl wait deploy                          wait until the lock is free
  pawl ls                                   list locks and their holders
  pawl show deploy                          show the holder and the waiters
  pawl top                                  show locks on the terminal, live
  pawl serve                                show locks in a browser
  pawl watch                                print what happens to locks
  pawl break deploy --force --why "hangs"   end a lease
  pawl doctor -s redis://localhost          check a store
  pawl bless -s redis://localhost --yes     end the quarantine of a new server
  pawl max-ttl -s redis://localhost 5m      allow a --ttl of five minutes
  pawl bench -s redis://localhost           measure what a lock costs`,
		Version:            version().Version,
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
	}
	cli.StoreVar(root.PersistentFlags(), &a.Store, "`URL` of the store (default $PAWL_STORE, or a directory of yours)")
	cli.ConnectFlag(root.PersistentFlags(), &a.Connect)
	root.AddCommand(run.Commands(a)...)
	root.AddCommand(manual.Commands(a)...)
	root.AddCommand(show.Commands(a)...)
	root.AddCommand(admin.Commands(a)...)
	root.AddCommand(top.Command(a), serve.Command(a), doctor.Command(a), bench.Command(a), versionCommand(a), manCommand())
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetUsageFunc(wrapped(root.UsageFunc()))
	root.InitDefaultHelpCmd()
	if c, _, err := root.Find([]string{"help"}); err == nil {
		c.Long, c.Run, c.RunE = "", nil, help
	}
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // with a RunE, cobra checks the arguments
	}
	return root
}

// otherCommands maps commands of other tools to the commands of pawl.
var otherCommands = map[string]string{
	"list": "ls", "status": "show", "info": "show", "unlock": "break", "extend": "renew", "refresh": "renew", "lock": "run", "exec": "run", "cron": "once", "lease": "acquire",
	"events": "watch", "follow": "watch", "monitor": "top", "htop": "top",
}

// unknownCommand returns the failure for an unknown command.
func unknownCommand(root *cobra.Command, word string) *exit.Failure {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := "try: pawl --help"
	if meant := storekit.Nearest(word, names, otherCommands); meant != "" {
		hint = "did you mean pawl " + meant + "? " + hint
	}
	return exit.Usage(fmt.Sprintf("unknown command %q for \"pawl\"", display.Shorten(word, 40)), hint)
}

// unknownWord returns the word in the place of the command if it names no command, and else "".
func unknownWord(root *cobra.Command, args []string) string {
	if _, _, err := root.Find(args); err == nil {
		return ""
	}
	root.Flags().SetInterspersed(false)
	_ = root.ParseFlags(args) // up to that word
	return root.Flags().Arg(0)
}

// Execute runs the command line and returns the exit code.
func Execute(args []string, stdout, stderr io.Writer) int {
	a := &cli.App{Stdout: stdout, Stderr: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	if a.Interrupted || a.Keyboard {
		job.Interrupt(a.Keyboard)
	}
	if err == nil {
		return a.Code
	}
	f := exit.As(err)
	if word := unknownWord(root, args); word != "" {
		f = unknownCommand(root, word)
	}
	if !f.Told {
		fmt.Fprintln(stderr, f.Line())
	}
	return f.Code
}
