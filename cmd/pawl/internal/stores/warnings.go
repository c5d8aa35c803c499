// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
)

// warnings is a log handler that prints each warning of a store as a line, in the
// same form as other warnings of pawl.
type warnings struct{ w io.Writer }

func (h warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	text := "pawl: warning: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(h.w, display.Printable(text))
	return err
}

func (h warnings) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h warnings) WithGroup(string) slog.Handler      { return h }
