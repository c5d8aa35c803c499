// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"io/fs"
)

// Failure is the error of a request, with what is known about the request.
type Failure struct {
	Err     error // what the caller gets
	Maybe   bool  // the service may have carried out the request, or may still do so
	Lasting bool  // a repetition will fail as well
	Silent  bool  // there was no answer
	Passing bool  // nothing is wrong: send the request again
	Ended   bool  // the lease ended before it was granted; one with another id may be granted
}

// Error returns the text of f.Err.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// FailureOf returns what is known about a request that failed with err. Unless err is a *Failure, the request may have
// been carried out and had no answer. The exceptions are ErrUnavailable, ErrRefused, and answers that a repetition
// would get too, such as ErrHeld.
func FailureOf(err error) Failure {
	var f *Failure
	var slots *SlotsError
	if errors.As(err, &f) {
		return *f
	}
	answer := errors.As(err, &slots)
	for _, known := range []error{ErrHeld, ErrLost, ErrReleased, ErrDisagree, ErrDenied, fs.ErrInvalid, errors.ErrUnsupported} {
		answer = answer || errors.Is(err, known)
	}
	return Failure{Err: err, Maybe: !answer && !errors.Is(err, ErrUnavailable), Silent: !answer && !errors.Is(err, ErrRefused), Lasting: answer}
}
