// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/redislock/redlock"
)

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes of a redlock store",
		Long: `Show the nodes of a redlock store: which they are, whether they grant leases,
and which set of nodes programs have to use. See docs/redlock-nodes.md.`,
		Example: `  pawl nodes -s redlock://a,b,c`,
		Args:    args(0, 0, "try: pawl nodes -s redlock://a,b,c"),
		RunE:    func(*cobra.Command, []string) error { return a.showNodes() },
	}
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
	Address  string `json:"address"`
	ID       string `json:"id,omitempty"`       // random
	Set      string `json:"set,omitempty"`      // of nodes that it serves: quorum:id,id,id
	Changing string `json:"changing,omitempty"` // to which nodes, and by whom
	Closed   string `json:"closed,omitempty"`
	Error    string `json:"error,omitempty"`
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
		n := nodeJSON{Address: s.Addr, ID: s.ID, Set: s.Set, Changing: s.Changing}
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
		fmt.Fprintln(t, "ADDRESS\tID\tCLOSED\tSERVES")
		for _, n := range out.Nodes {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", n.Address, dash(n.ID), dash(n.Closed), printable(dash(why(n))))
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

// why is what a node serves, or why it does not.
func why(n nodeJSON) string {
	switch {
	case n.Error != "":
		return n.Error
	case n.Changing != "":
		return "nothing: the nodes are being changed " + n.Changing
	}
	return n.Set
}
