// SPDX-License-Identifier: Apache-2.0

// Package exit has the exit codes of pawl, and the error line for each failure.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Exit codes. They follow sysexits.h, which defines 64 to 78; Lost is the next number.
const (
	Misuse      = 64
	Nobody      = 66
	Unavailable = 69
	System      = 71
	Busy        = 75
	Denied      = 77
	Config      = 78
	Lost        = 79
)

// Kinds are the words for the exit codes. The last line on stderr begins with "pawl: " and one of them.
var Kinds = map[int]string{
	Misuse:        "usage",
	Nobody:        "nobody",
	Unavailable:   "unavailable",
	System:        "system",
	Busy:          "busy",
	Denied:        "denied",
	Config:        "config",
	Lost:          "lost",
	job.CannotRun: job.Kind(job.CannotRun),
	job.NotFound:  job.Kind(job.NotFound),
}

// Failure is an error with an exit code and a hint what to do.
type Failure struct {
	Code int
	Kind string // one of Kinds; with --busy-code, Code may be another number
	Text string // what happened
	Hint string // what to do next; empty if Text says it
	Told bool   // do not print it: the user knows already

	Advice string // what to do at the server, for an operator; may be empty
}

// Fail returns a failure with a code. text says what happened, and hint what to do next.
func Fail(code int, text, hint string) *Failure {
	return &Failure{Code: code, Kind: Kinds[code], Text: text, Hint: hint}
}

// Usage returns the failure for a mistake in the command line.
func Usage(text, hint string) *Failure { return Fail(Misuse, text, hint) }

// Interrupted returns the failure for a signal that has ended a command. The user has sent it, and knows.
func Interrupted(sig os.Signal) *Failure {
	n, _ := sig.(syscall.Signal)
	return &Failure{Code: 128 + int(n), Kind: "interrupted", Text: sig.String(), Told: true}
}

func (f *Failure) Error() string {
	text := f.Text
	if f.Hint != "" {
		if !strings.HasSuffix(text, "?") {
			text += ";"
		}
		text += " " + f.Hint
	}
	return display.Printable(text)
}

// Line returns the line for the user. It is always a single line, so that the last line
// on stderr begins with the kind of failure.
func (f *Failure) Line() string { return "pawl: " + f.Kind + ": " + f.Error() }

// As returns err as a failure. An error that is not a Failure comes from the file system, or from the
// parser of the command line.
func As(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	text := strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", " "))
	if e := new(fs.PathError); errors.As(err, &e) {
		return Fail(System, text, "check the disk with df -h, and where the output goes")
	}
	return Usage(text, "try: pawl --help")
}

// Plain returns the text of an error without the prefixes "pawl: " and "open: ".
func Plain(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "pawl: "), "open: ")
}

// Unread reports whether the store answered and only some names cannot be read.
func Unread(err error) bool {
	_, only := driver.Unread(err)
	return only
}

// OfStore returns the failure for an error of the store.
func OfStore(err error, store string) *Failure {
	f := storeError(err, store)
	f.Advice = storekit.Advice(err)
	return f
}

func storeError(err error, store string) *Failure {
	text := strings.TrimSuffix(Plain(err), ": "+errors.ErrUnsupported.Error())
	var slots *driver.SlotsError
	switch {
	case errors.As(err, &slots):
		return Fail(Config, text, fmt.Sprintf("use --slots %d, or another name", slots.Held))
	case errors.Is(err, pawl.ErrDisagree):
		return Fail(Config, text, "")
	case errors.Is(err, pawl.ErrHeld):
		return Fail(Busy, text, "")
	case errors.Is(err, pawl.ErrLost):
		return Fail(Lost, text, "")
	case errors.Is(err, fs.ErrPermission) && !strings.HasPrefix(store, "file:"):
		return Fail(Denied, text, "") // text says what to do
	case errors.Is(err, fs.ErrPermission):
		return Fail(Denied, text, "use a store of your own with --store file:///DIR, or see who owns "+store)
	case Unread(err):
		return Fail(Unavailable, text, "") // text says what to do
	case errors.Is(err, fs.ErrInvalid):
		return Fail(Config, text, "the store is "+store)
	case errors.Is(err, errors.ErrUnsupported):
		return Fail(Config, text, "use another store: --store URL")
	case errors.Is(err, context.DeadlineExceeded):
		return Fail(Unavailable, text, "the store is slow or down: check "+store)
	}
	return Fail(Unavailable, text, "check --store, which is "+store)
}
