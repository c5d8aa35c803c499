// SPDX-License-Identifier: Apache-2.0

package adapthttp

import (
	"errors"
	"net/http"

	"github.com/pawl-go/pawl"
)

// response is an http.ResponseWriter that replaces an answer of success by a refusal after the lease was lost.
type response struct {
	http.ResponseWriter
	lease   *pawl.Lease
	status  int   // the status that was written, or 0
	refused error // the loss, after refuse has answered
}

// lost returns the loss of the lease, or nil. It returns nil if the handler has released the lease early.
func (a *response) lost() error {
	if err := a.lease.Err(); errors.Is(err, pawl.ErrLost) {
		return err
	}
	return nil
}

// WriteHeader implements http.ResponseWriter.
func (a *response) WriteHeader(status int) {
	if a.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		if a.refused == nil { // a second header, which the server logs, or an informational one
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
		a.Header().Del(of) // they describe the answer that is replaced
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

// FlushError flushes the response. http.ResponseController calls it.
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

// Unwrap returns the underlying ResponseWriter, for http.ResponseController.
func (a *response) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// finish is called when the handler has returned and the lease was released. back is the error of the release,
// which may be the first sign of a loss. A success that has begun cannot be taken back. But finish aborts the
// response, so that it does not look complete.
func (a *response) finish(back error) {
	switch {
	case !errors.Is(back, pawl.ErrLost):
	case a.status == 0:
		a.refuse(back)
	case a.status < 400:
		panic(http.ErrAbortHandler)
	}
}
