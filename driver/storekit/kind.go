// SPDX-License-Identifier: Apache-2.0

package storekit

import (
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

type ofKind struct {
	error
	kind error
}

func (e *ofKind) Unwrap() []error { return []error{e.error, e.kind} }
