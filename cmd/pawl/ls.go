// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
)

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks that somebody holds or waits for",
		Long: `List the locks that somebody holds or waits for, and whose names begin with
PREFIX. Nothing is printed if there are none.`,
		Example: `  pawl ls
  pawl ls deploy/
  pawl ls --json | jq -r '.locks[].name'`,
		Args:              args(0, 1, "see pawl ls --help"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			return a.ls(cmd, prefix)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) ls(cmd *cobra.Command, prefix string) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close()
	infos, failed := s.List(cmd.Context(), prefix)
	if failed != nil {
		failed = storeFailure(failed, s.url.String())
	}
	if len(infos) == 0 && failed != nil {
		return failed
	}
	state, err := s.state(cmd.Context())
	if err != nil {
		return err
	}
	out := lsJSON{Schema: schema, Store: s.url.String(), Locks: []lockJSON{}, State: state}
	for _, info := range infos {
		out.Locks = append(out.Locks, lock(info))
	}
	err = a.print(out, func(w io.Writer) error {
		if state != nil && state.Closed != "" {
			fmt.Fprintln(a.stderr, state.line())
		}
		return printTable(w, infos)
	})
	return cmp.Or(err, failed) // what could not be read is told beside the rest
}

func printTable(w io.Writer, infos []*pawl.Info) error {
	if len(infos) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tTOKEN\tKIND\tFOR\tWAITING\tHOLDER\tWHY")
	for _, info := range infos {
		for _, h := range info.Holders {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\t%s\n", printable(info.Name), h.Token,
				cmp.Or(kindText(h.Shared, h.Slots), "exclusive"), age(h.Acquired), len(info.Waiters),
				printable(h.Holder.String()), printable(cmp.Or(h.Why, "-")))
		}
		if len(info.Holders) == 0 {
			fmt.Fprintf(t, "%s\t%d\t-\t-\t%d\t-\t-\n", printable(info.Name), info.Token, len(info.Waiters))
		}
	}
	return t.Flush()
}
