// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"io/fs"

	"github.com/pawl-go/pawl/driver"
)

// Kinds of refusals that waiting does not end. An error is one of them besides driver.ErrUnavailable.
var (
	// ErrDenied says that the server refuses the user, or a command that a lock needs.
	ErrDenied = driver.ErrDenied
	// ErrConfig says that the URL or the options do not fit the server.
	ErrConfig = fs.ErrInvalid
)

// OfKind returns an error with the text of err that is also kind. If kind is nil, it returns err.
func OfKind(kind, err error) error {
	if kind == nil {
		return err
	}
	return &ofKind{err, kind}
}

// Advice returns what an operator can do at the server about an error of a store, for "pawl doctor". It returns ""
// if it has no advice.
func Advice(err error) string {
	var refusal interface{ Advice() string }
	if errors.As(err, &refusal) {
		return refusal.Advice()
	}
	return ""
}

type ofKind struct {
	error
	kind error
}

func (e *ofKind) Unwrap() []error { return []error{e.error, e.kind} }
