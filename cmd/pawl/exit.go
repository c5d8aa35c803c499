// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/job"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// Exit codes, from sysexits.h where it has a word for the case. 79 is the first
// number that is free there.
const (
	exitUsage       = 64
	exitNobody      = 66
	exitUnavailable = 69
	exitSystem      = 71
	exitBusy        = 75
	exitDenied      = 77
	exitConfig      = 78
	exitLost        = 79
)

// kinds are the words that the last line on stderr begins with.
var kinds = map[int]string{
	exitUsage:       "usage",
	exitNobody:      "nobody",
	exitUnavailable: "unavailable",
	exitSystem:      "system",
	exitBusy:        "busy",
	exitDenied:      "denied",
	exitConfig:      "config",
	exitLost:        "lost",
	job.CannotRun:   job.Kind(job.CannotRun),
	job.NotFound:    job.Kind(job.NotFound),
}

// failure is an error with an exit code, that says what to type next.
type failure struct {
	code int
	kind string // as in kinds; code may be another one, of the user's choice
	text string // what happened
	hint string // what to type next; may be empty if text says it
	told bool   // the user knows already

	advice string // for an operator, at the server; may be empty
}

func fail(code int, text, hint string) *failure {
	return &failure{code: code, kind: kinds[code], text: text, hint: hint}
}

// usage is a mistake in the command line.
func usage(text, hint string) *failure { return fail(exitUsage, text, hint) }

func (f *failure) Error() string {
	text := flagNames.Replace(f.text)
	if f.hint != "" {
		text += "; " + f.hint
	}
	return printable(text)
}

// flagNames turns the names of Go options, which errors of the packages below
// use, into words of the command line. It has whole phrases, as lines also quote
// names of locks, and what users wrote.
var flagNames = strings.NewReplacer(
	"for as long as MaxHold allows", "for as long as --max-hold allows",
	"took longer than its TTL of", "took longer than its --ttl of",
	" (Options.AllowShared)", "",
	"filelock, redislock (not with Mode Efficiency), redlock, zklock, etcdlock, pglock and memlock have them", "stores of kind file, redis (without ?mode=), redlock, zk, etcd and postgres have them",
	"filelock, redislock (not with Mode Efficiency), zklock, etcdlock, pglock and memlock have them", "stores of kind file, redis (without ?mode=), zk, etcd and postgres have them",
)

// line is the one line that the user gets. It is one, so that the last line
// on stderr always begins with the kind of failure.
func (f *failure) line() string { return "pawl: " + f.kind + ": " + f.Error() }

// asFailure returns err as a failure. What is none by itself comes from the
// parser of the command line.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	text := strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", " "))
	if e := new(fs.PathError); errors.As(err, &e) {
		return fail(exitSystem, text, "see df -h, and where the output goes")
	}
	return usage(text, "try: pawl --help")
}

// plain returns the text of an error of the store without the words that say to
// programmers where it comes from.
func plain(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "pawl: "), "open: ")
}

// unread reports whether the store answers, and some names cannot be read.
func unread(err error) bool {
	_, only := driver.Unread(err)
	return only
}

// storeFailure returns the failure for an error of the store.
func storeFailure(err error, store string) *failure {
	f := storeError(err, store)
	f.advice = storekit.Advice(err)
	return f
}

func storeError(err error, store string) *failure {
	text := strings.TrimSuffix(plain(err), ": "+errors.ErrUnsupported.Error())
	var slots *pawl.SlotsError
	switch {
	case errors.As(err, &slots):
		return fail(exitConfig, text, fmt.Sprintf("use --slots %d, or another name", slots.Held))
	case errors.Is(err, pawl.ErrDisagree):
		return fail(exitConfig, text, "")
	case errors.Is(err, pawl.ErrHeld):
		return fail(exitBusy, text, "")
	case errors.Is(err, pawl.ErrLost):
		return fail(exitLost, text, "")
	case errors.Is(err, fs.ErrPermission) && !strings.HasPrefix(store, "file:"):
		return fail(exitDenied, text, "") // which says what to do
	case errors.Is(err, fs.ErrPermission):
		return fail(exitDenied, text, "use a store of your own with --store file:///DIR, or see who owns "+store)
	case unread(err):
		return fail(exitUnavailable, text, "") // which says what to do
	case errors.Is(err, fs.ErrInvalid):
		return fail(exitConfig, text, "the store is now "+store)
	case errors.Is(err, errors.ErrUnsupported):
		return fail(exitConfig, text, "use another store: --store URL")
	case errors.Is(err, context.DeadlineExceeded):
		return fail(exitUnavailable, text, "the store is slow, or gone: check "+store)
	}
	return fail(exitUnavailable, text, "check --store, now "+store)
}
