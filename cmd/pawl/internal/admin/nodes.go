// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/redislock/redlock"
)

func nodesCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show or change the nodes of a redlock store",
		Long: `Nodes shows the nodes of a redlock store, whether each grants locks, and which
set of nodes programs have to use. See docs/redlock-nodes.md.`,
		Example: `  pawl nodes -s redlock://a,b,c
  pawl nodes change --from redlock://a,b,c --to redlock://a,b,d`,
		Args: cli.Args(0, 0, "try: pawl nodes -s redlock://a,b,c"),
		RunE: func(*cobra.Command, []string) error { return showNodes(a) },
	}
	storeFlag(a, cmd, "redlock")
	a.JSONFlag(cmd)
	cmd.AddCommand(nodesChangeCommand(a))
	return cmd
}

func nodesChangeCommand(a *cli.App) *cobra.Command {
	var from, to string
	var back, force bool
	cmd := &cobra.Command{
		Use:   "change --from URL --to URL",
		Short: "Change the nodes of a redlock store",
		Long: `Change replaces the nodes of a redlock store, or their number. It closes the old
nodes, waits for the longest --ttl of the store, and opens the new ones. In the
meantime nothing is granted or renewed, and programs lose their locks. Stop them
first if you can. Programs that still name the old nodes are refused, unless
enough of the new nodes are among them.

All new nodes and a quorum of the old ones have to answer. If the command fails
or is interrupted, run it again, or undo the change with --abort. One operator
at a time: of two changes that meet, each names the other and stops.

--abort takes as long as a change. It needs answers from so many new nodes that
the others are no quorum. --force goes on without: use it only if those nodes
will not come back and nobody else is changing the nodes.`,
		Example: `  pawl nodes change --from redlock://a,b,c --to redlock://a,b,d
  pawl nodes change --from redlock://a,b,c --to redlock://a,b,d --abort`,
		Args: cli.Args(0, 0, "try: pawl nodes change --from redlock://a,b,c --to redlock://a,b,d"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return changeNodes(a, cmd.Context(), from, to, back, force)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`URL` of the nodes in use")
	cmd.Flags().StringVar(&to, "to", "", "`URL` of the nodes to use instead")
	cmd.Flags().BoolVar(&back, "abort", false, "undo the change")
	cmd.Flags().BoolVar(&force, "force", false, "with --abort: open the old nodes even if too few new ones answer")
	return cmd
}

func changeNodes(a *cli.App, ctx context.Context, from, to string, back, force bool) error {
	if from == "" || to == "" || force && !back {
		return exit.Usage("a change needs --from and --to, and --force goes with --abort", "try: pawl nodes change --from redlock://a,b,c --to redlock://a,b,d")
	}
	var urls []string
	for _, text := range []string{from, to} {
		u, err := stores.Parse(text)
		if err == nil {
			err = isRedlock(u)
		}
		if err != nil {
			return err
		}
		urls = append(urls, u.Secret())
	}
	opts := redlockOptions(ctx)
	opts.ConnectTimeout = a.Connect
	change := redlock.Change{From: urls[0], To: urls[1], Options: opts, Force: force, Say: func(text string) { fmt.Fprintln(a.Stdout, text) }}
	err := change.Run
	if back {
		err = change.Abort
	}
	return nodesFailure(err(ctx), from)
}

// nodesFailure returns the failure for an error of a change, or nil.
func nodesFailure(err error, store string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redlock.ErrOtherChange):
		return exit.Fail(exit.Config, exit.Plain(err), "")
	case errors.Is(err, pawl.ErrUnavailable):
		return exit.OfStore(err, store)
	}
	return exit.Fail(exit.Config, exit.Plain(err), "see pawl nodes, and pawl nodes change --help")
}

// nodesJSON is the output of nodes --json.
type nodesJSON struct {
	Schema int        `json:"schema"`
	Store  string     `json:"store"`
	Nodes  []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	Address  string `json:"address"`
	ID       string `json:"id,omitempty"`       // random
	Set      string `json:"set,omitempty"`      // the set of nodes to which it belongs: quorum:id,id,id
	Changing string `json:"changing,omitempty"` // to which nodes, and by whom
	Closed   string `json:"closed,omitempty"`
	Error    string `json:"error,omitempty"`
}

func showNodes(a *cli.App) error {
	var all []redlock.Status
	u, err := stores.Reach(a.Store, a.Connect, func(ctx context.Context, u *stores.URL) (err error) {
		if err := isRedlock(u); err != nil {
			return err
		}
		all, err = redlock.Nodes(ctx, u.Secret(), redlockOptions(ctx))
		return err
	})
	if err != nil {
		return err
	}
	out := nodesJSON{Schema: report.Schema, Store: u.String()}
	for _, s := range all {
		n := nodeJSON{Address: s.Addr, ID: s.ID, Set: s.Set, Changing: s.Changing}
		if s.Closed > 0 {
			n.Closed = s.Closed.Round(time.Second).String()
		}
		if s.Err != nil {
			n.Error = s.Err.Error()
		}
		out.Nodes = append(out.Nodes, n)
	}
	return a.Print(out, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ADDRESS\tID\tCLOSED\tSERVES")
		for _, n := range out.Nodes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", n.Address, cmp.Or(n.ID, "-"), cmp.Or(n.Closed, "-"), display.Printable(cmp.Or(why(n), "-")))
		}
		return t.Flush()
	})
}

func isRedlock(u *stores.URL) error {
	if u.Scheme != "redlock" {
		return exit.Fail(exit.Config, fmt.Sprintf("a store of kind %q has no nodes", u.Scheme), "name one with --store redlock://HOST,HOST,HOST")
	}
	return nil
}

// why returns the set of nodes to which a node belongs, or why it grants nothing.
func why(n nodeJSON) string {
	switch {
	case n.Error != "":
		return n.Error
	case n.Changing != "":
		return "nothing: the nodes are being changed " + n.Changing
	}
	return n.Set
}
