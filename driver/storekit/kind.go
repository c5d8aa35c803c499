// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"io/fs"

	"github.com/pawl-go/pawl/driver"
)

// What a server's refusal may be besides driver.ErrUnavailable, so that programs can
// tell what no waiting mends.
var (
	// ErrDenied: the server does not let this user in, or lets it do too little.
	ErrDenied = driver.ErrDenied
	// ErrConfig: the URL or the options do not fit the server.
	ErrConfig = fs.ErrInvalid
)

// OfKind returns an error with the text of err that is also kind. A nil kind changes
// nothing.
func OfKind(kind, err error) error {
	if kind == nil {
		return err
	}
	return &ofKind{err, kind}
}

// Advice returns what an operator can do at the server about an error of a store, for "pawl doctor", or nothing.
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
