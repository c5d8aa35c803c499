// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl"
)

// runOptions are the options of a scheduled run. Those of the user win.
func runOptions(minHold time.Duration, opts []pawl.Option) []pawl.Option {
	return append([]pawl.Option{pawl.MinHold(minHold)}, opts...)
}

// giveBack releases the lease of a run. Whoever had ended it before, the run was not under
// it to the end.
func giveBack(ctx context.Context, lease *pawl.Lease) error {
	ended := lease.Err()
	if err := lease.Release(ctx); ended == nil {
		ended = err
	}
	return ended
}

// tell is for errors that a scheduler has nobody to return to.
func tell(report func(name string, err error), name string, err error) {
	switch {
	case report != nil:
		report(name, err)
	case !errors.Is(err, pawl.ErrHeld): // another runs it, as is meant to be
		slog.Error("pawl: a scheduled job was skipped, failed or lost its lock", "name", name, "error", err)
	}
}
