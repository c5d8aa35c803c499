// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeName completes the name of a lock with those in use.
func (a *app) completeName(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(word), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) names(prefix string) []string {
	// A shell waits for the answer.
	a.connect = time.Second
	s, err := a.open()
	if err != nil {
		return nil
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	infos, err := s.List(ctx, prefix)
	if err != nil {
		return nil
	}
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}
