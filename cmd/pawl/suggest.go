// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl/cmd/pawl/internal/suggest"
)

// otherFlags are words of other tools for flags that pawl has under another name.
var otherFlags = map[string]string{
	"timeout": "wait", "nonblock": "no-wait", "nb": "no-wait", "conflict-exit-code": "busy-code", "holders": "slots", "reason": "why",
}

// likeFlag asks whether a flag was meant that is like the one that err calls unknown, or returns "".
func likeFlag(err error, fs *pflag.FlagSet) string {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if meant := suggest.Nearest(missing.GetSpecifiedName(), names, otherFlags); meant != "" {
		return "did you mean --" + meant + "? "
	}
	return ""
}
