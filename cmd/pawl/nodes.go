// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/redislock/redlock"
)

func (a *app) nodesCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "nodes [--to URL]",
		Short: "Show the nodes of a redlock store, or change them",
		Long: `Show the nodes of a redlock store, or change them while it is in use: replace
one, or go from three to five and back.

All programs have to use the same nodes; the nodes know which, and refuse
others. To change them, say what they are with --store and what they are to be
with --to. That makes one step, and prints what programs are to use from then
on. When all of them do, whatever the order, say the same again, until it says
that this was the last step. The second step takes a while: for the longest
--ttl of the store. Programs that still use what was before the last step are
refused then, and lose their locks.

Of two changes at once one goes on, and the other is told. To undo a change, say
it with the two swapped. A node that has died may be among those of --store.
See docs/redlock-nodes.md.`,
		Example: `  pawl nodes -s redlock://a,b,c
  pawl nodes -s redlock://a,b,c --to redlock://a,b,d`,
		Args: args(0, 0, "try: pawl nodes -s redlock://a,b,c --to redlock://a,b,d"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return a.showNodes()
			}
			return a.changeNodes(cmd.Context(), to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`URL` with the nodes that there are to be")
	a.jsonFlag(cmd)
	return cmd
}

// nodesJSON is what nodes prints.
type nodesJSON struct {
	Schema int        `json:"schema"`
	Store  string     `json:"store"`
	Nodes  []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	Address string   `json:"address"`
	ID      string   `json:"id,omitempty"`   // the address by which it was named first
	Sets    []string `json:"sets,omitempty"` // of nodes that programs may use: quorum:id,id,id
	Closed  string   `json:"closed,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func (a *app) showNodes() error {
	var all []redlock.Status
	u, err := reach(a.store, a.connect, func(ctx context.Context, u *storeURL) (err error) {
		if err := isRedlock(u); err != nil {
			return err
		}
		all, err = nodesRedlock(ctx, u)
		return err
	})
	if err != nil {
		return err
	}
	out := nodesJSON{Schema: schema, Store: u.String()}
	for _, s := range all {
		n := nodeJSON{Address: s.Addr, ID: s.ID, Sets: s.Sets}
		if s.Closed > 0 {
			n.Closed = s.Closed.Round(time.Second).String()
		}
		if s.Err != nil {
			n.Error = s.Err.Error()
		}
		out.Nodes = append(out.Nodes, n)
	}
	return a.print(out, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ADDRESS\tID\tCLOSED\tPROGRAMS MAY USE")
		for _, n := range out.Nodes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", n.Address, dash(n.ID), dash(n.Closed), printable(dash(strings.Join(n.Sets, " or ")+n.Error)))
		}
		return t.Flush()
	})
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func isRedlock(u *storeURL) error {
	if u.scheme != "redlock" {
		return fail(exitConfig, fmt.Sprintf("a store of kind %q has no nodes to agree on", u.scheme), "name one with --store redlock://HOST,HOST,HOST")
	}
	return nil
}

// stepJSON is what nodes --to prints.
type stepJSON struct {
	Schema  int      `json:"schema"`
	Use     []string `json:"use"`              // the nodes that programs are to name from now on
	Quorum  int      `json:"quorum,omitempty"` // what ?quorum= is to be; 0: nothing
	Last    bool     `json:"last"`
	Unheard []string `json:"unheard,omitempty"` // nodes that do not know it yet
}

func (a *app) changeNodes(ctx context.Context, to string) error {
	next, err := parseStore(to)
	if err == nil {
		err = isRedlock(next)
	}
	if err != nil {
		return err
	}
	now, err := reach(a.store, a.connect, func(_ context.Context, u *storeURL) error { return isRedlock(u) })
	if err != nil {
		return err
	}
	step, err := changeRedlock(ctx, now, next)
	if errors.Is(err, redlock.ErrOtherChange) {
		return fail(exitConfig, plain(err), "")
	}
	if err != nil {
		return storeFailure(err, now.String())
	}
	return a.print(stepJSON{schema, step.Nodes, step.Quorum, step.Last, step.Unheard}, func(w io.Writer) error {
		url := "redlock://" + strings.Join(step.Nodes, ",")
		if step.Quorum != 0 {
			url += fmt.Sprintf("?quorum=%d", step.Quorum)
		}
		if len(step.Unheard) > 0 {
			fmt.Fprintf(w, "not told, and told by programs when they are there: %s\n", strings.Join(step.Unheard, ", "))
		}
		if step.Last {
			_, err := fmt.Fprintf(w, "done: the store is %s\n", url)
			return err
		}
		_, err := fmt.Fprintf(w, "now let all programs use %s, with user, password and other settings as before; then say the same again\n", url)
		return err
	})
}
