// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl"
)

// giveBack releases the lease of a run, but not before it has been held for
// minHold: the clock of another machine may be late, and would then find the name
// free and run what has just been done. The rest of that time passes in the
// background; report is told if the release fails then.
func giveBack(ctx context.Context, lease *pawl.Lease, began time.Time, minHold time.Duration, report func(error)) error {
	ended := lease.Err() // whoever ended it, the run was not under the lease
	rest := minHold - time.Since(began)
	if ended != nil || rest <= 0 {
		if err := lease.Release(ctx); ended == nil {
			ended = err
		}
		return ended
	}
	time.AfterFunc(rest, func() {
		// A loss does not matter now: the run is over.
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, pawl.ErrLost) && !errors.Is(err, pawl.ErrReleased) {
			report(err)
		}
	})
	return nil
}

// tell is for errors that a scheduler has nobody to return to.
func tell(report func(name string, err error), name string, err error) {
	switch {
	case report != nil:
		report(name, err)
	case !errors.Is(err, pawl.ErrHeld): // another runs it, as is meant to be
		slog.Error("pawl: a scheduled job", "name", name, "error", err)
	}
}
