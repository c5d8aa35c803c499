// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// warnings is a log handler for what a store has to say to its user: one line
// for each warning, in the form of the command's other lines.
type warnings struct{ w io.Writer }

func (h warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	text := "pawl: warning: " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(h.w, printable(text))
	return err
}

func (h warnings) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h warnings) WithGroup(string) slog.Handler      { return h }

// say writes a line on stderr. The result is closed when that is done. Nothing
// that matters may wait for it: with Ctrl-S on the terminal, or a full pipe, it
// takes for ever.
func (r *runner) say(line string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fmt.Fprintln(r.stderr, printable(line))
	}()
	return done
}
