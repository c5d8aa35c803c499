// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/admin"
	"github.com/pawl-go/pawl/cmd/pawl/internal/bench"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/doctor"
	"github.com/pawl-go/pawl/cmd/pawl/internal/manual"
	"github.com/pawl-go/pawl/cmd/pawl/internal/run"
	"github.com/pawl-go/pawl/cmd/pawl/internal/serve"
	"github.com/pawl-go/pawl/cmd/pawl/internal/show"
	"github.com/pawl-go/pawl/cmd/pawl/internal/top"
)

func newRoot(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Only one of me at a time",
		Long: `pawl runs a command while it holds a lock, and shows and breaks locks.

The lock lives in a store. The default is a directory of the user on this
machine; --store or $PAWL_STORE names another one by URL:

  file:///var/lib/pawl    a directory, by its whole path
  file:///…?shared=true   a directory that other users may write to as well;
                          they can then keep or end every lock. Make it with
                          install -d -m 1777 /var/lib/pawl, or for one below
                          /run or /var/lock, which a reboot empties, with a
                          line in /etc/tmpfiles.d: d /run/lock/pawl 1777
  file:                   the default directory
  redis://host:6379/0     a Redis server, or one node of a cluster (more of
                          them: ?addr=…; with sentinels: ?master_set=NAME);
                          rediss:// with TLS, unix:///socket;
                          its password may be in $PAWL_REDIS_PASSWORD, or in a
                          file named by ?password_file=
  redlock://h1,h2,h3      three or five independent Redis servers, of which a
                          majority is enough; passwords as above
  zk://host1,host2/root   ZooKeeper servers; zks:// with TLS; a user's password
                          may be in $PAWL_ZK_PASSWORD, or in a file as above
  etcd://h1:2379,h2:2379/prefix
                          an etcd cluster; etcds:// with TLS; passwords
                          likewise, or in $PAWL_ETCD_PASSWORD
  postgres://user@host/database
                          a PostgreSQL database; passwords likewise, or in
                          $PAWL_POSTGRES_PASSWORD`,
		Example: `  pawl run deploy -- make deploy            wait for the lock, run, give it back
  pawl run nightly -n -- ./backup.sh        do nothing if it runs already
  pawl once --per 24h nightly -- ./backup   once a day, on one of many machines
  pawl hold deploy --for 10m --why "moves"  hold the lock by hand
  pawl acquire deploy --ttl 2m              for a script: renew, release
  pawl wait deploy                          until nobody has it
  pawl ls                                   who holds what
  pawl watch                                what happens to locks, as it happens
  pawl top                                  who holds what, live
  pawl serve                                the same in a browser, live
  pawl show deploy                          who has it, why, and who waits
  pawl break deploy --force --why "hangs"   end somebody's lease
  pawl bless -s redis://localhost --yes     a new Redis server need not wait
  pawl max-ttl -s redis://localhost 5m      allow leases of five minutes there
  pawl bench -s redis://localhost           what a lock costs there`,
		Version:            version().Version,
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
	}
	root.PersistentFlags().VarP((*cli.StoreFlag)(&a.Store), "store", "s", "`URL` of the store (default $PAWL_STORE, or else the file store)")
	cli.ConnectFlag(root.PersistentFlags(), &a.Connect)
	root.AddCommand(run.Commands(a)...)
	root.AddCommand(manual.Commands(a)...)
	root.AddCommand(show.Commands(a)...)
	root.AddCommand(admin.Commands(a)...)
	root.AddCommand(top.Command(a), serve.Command(a), doctor.Command(a), bench.Command(a), versionCommand(a), manCommand())
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetUsageFunc(printUsage)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // so that its arguments are looked at
	}
	return root
}
