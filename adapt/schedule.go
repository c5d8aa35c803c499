// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl"
)

// runOptions returns the options of a scheduled run. The user's options come last, so they take precedence.
func runOptions(minHold time.Duration, opts []pawl.Option) []pawl.Option {
	return append([]pawl.Option{pawl.MinHold(minHold)}, opts...)
}

// tell reports an error that no caller receives.
func tell(report func(name string, err error), name string, err error) {
	switch {
	case report != nil:
		report(name, err)
	case !errors.Is(err, pawl.ErrHeld): // ErrHeld is the normal case: another process runs the job
		slog.Error("pawl: a scheduled job was skipped, failed or lost its lock", "name", name, "error", err)
	}
}
