// SPDX-License-Identifier: Apache-2.0

package adapthttp

import (
	"errors"
	"net/http"

	"github.com/pawl-go/pawl"
)

// response refuses to answer with success after the loss of the lease.
type response struct {
	http.ResponseWriter
	lease   *pawl.Lease
	status  int   // 0 until it is written
	refused error // the loss, once it has been answered
}

// lost returns the loss of the lease, or nil. A handler may release the lease early.
func (a *response) lost() error {
	if err := a.lease.Err(); errors.Is(err, pawl.ErrLost) {
		return err
	}
	return nil
}

// WriteHeader implements http.ResponseWriter.
func (a *response) WriteHeader(status int) {
	if a.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		if a.refused == nil { // superfluous, which the server logs, or informational
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	if status < 400 {
		if err := a.lost(); err != nil {
			a.refuse(err)
			return
		}
	}
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// refuse answers that the lease was lost.
func (a *response) refuse(lost error) {
	a.status, a.refused = http.StatusServiceUnavailable, lost
	for _, of := range []string{"Content-Encoding", "Etag", "Last-Modified", "Cache-Control", "Expires", "Location"} {
		a.Header().Del(of) // the answer that is not given
	}
	http.Error(a.ResponseWriter, "the lock was lost while the request was handled", a.status)
}

// Write implements http.ResponseWriter.
func (a *response) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.refused != nil {
		return 0, a.refused
	}
	return a.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls.
func (a *response) FlushError() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.refused != nil {
		return a.refused
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (a *response) Flush() { _ = a.FlushError() }

// Unwrap is for http.ResponseController.
func (a *response) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// finish is called when the handler has returned and the lease was released. back is the error of the
// release, which may be the first sign of a loss. A success that has begun cannot be taken back, but finish
// can keep it from looking complete.
func (a *response) finish(back error) {
	switch {
	case !errors.Is(back, pawl.ErrLost):
	case a.status == 0:
		a.refuse(back)
	case a.status < 400:
		panic(http.ErrAbortHandler)
	}
}
