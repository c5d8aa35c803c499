// SPDX-License-Identifier: Apache-2.0

// Package adapthttp puts requests of net/http under leases.
package adapthttp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Middleware lets one request at a time through for each name, on all servers with the same store. Do not change
// it after the first use.
//
//	lock := adapthttp.Middleware{Locks: locks, Name: func(r *http.Request) string { return "invoice/" + r.PathValue("id") }}
//	mux.Handle("POST /invoice/{id}", lock.Handler(pay))
//
// The context of the request ends with the lease. pawl.LeaseFrom returns the lease from the context, for its
// token. The lease ends when the handler returns. An http.TimeoutHandler returns while the work goes on, so put it
// around this handler, not inside.
//
// If the name is held, the answer is 423 Locked with Retry-After and a JSON body that describes the holder, as far
// as Show allows. If the store cannot be reached, the answer is 503, and the handler does not run.
//
// If the lease is lost while the handler runs, the answer is not a success, even if only the release shows the
// loss: a status below 400 becomes 503, and a response that has begun is aborted (http.ErrAbortHandler). What the
// handler has done so far remains, so it must check its context or send the token. Middleware does not touch a
// hijacked connection.
type Middleware struct {
	Locks *pawl.Client // acquires the leases; must be set

	// Name returns the name that a request locks. If it comes from the request, a stranger can choose what to
	// lock. If driver.CheckName refuses the name, the answer is 400. If the name is empty, the answer is 500, and
	// Report is called: keep requests that need no lock away from this handler.
	Name func(*http.Request) string

	// Wait is how long a request waits for the lock. With 0 it does not wait.
	Wait time.Duration

	// RetryAfter is the Retry-After of a refusal. 0 means a second. If the store knows a better time, that is
	// used; see pawl.ClosedError.
	RetryAfter time.Duration

	// Show chooses what the answer says of the holder. Nil means Anonymous. Show may return another Info, and must
	// not change the one that it gets. Show users, hosts, commands and reasons only to colleagues. Show the id of
	// a lease only to clients that may break it.
	Show func(*http.Request, *pawl.Info) *pawl.Info

	// Report is called with errors that the client of a request cannot fix: the store could not be reached, the
	// lease was lost or could not be released, or there is no name. If Report is nil, slog.Default() logs them.
	Report func(*http.Request, error)

	Options []pawl.Option // for Acquire and TryAcquire
}

// Handler returns a handler that calls next under the lock.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, err := m.acquire(r)
		if err != nil {
			m.refuse(w, r, err)
			return
		}
		var answered *response
		defer func() {
			err := lease.Release(r.Context())
			if err != nil {
				m.report(r, err)
			}
			if answered != nil { // next has not panicked
				answered.finish(err)
			}
		}()
		ctx, cancel := lease.Context(r.Context())
		defer cancel()
		answer := &response{ResponseWriter: w, lease: lease}
		next.ServeHTTP(answer, r.WithContext(ctx))
		answered = answer
	})
}

var errNoName = errors.New("adapthttp: Name returns no name for this request: let it return one, or keep such requests from here")

// badName is the error of an invalid name, which is the fault of the request.
type badName struct{ error }

func (m *Middleware) acquire(r *http.Request) (*pawl.Lease, error) {
	name := m.Name(r)
	if name == "" {
		return nil, errNoName
	}
	if err := driver.CheckName(name); err != nil {
		return nil, badName{err}
	}
	if m.Wait <= 0 {
		return m.Locks.TryAcquire(r.Context(), name, m.Options...)
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.Wait)
	defer cancel()
	lease, err := m.Locks.Acquire(ctx, name, m.Options...)
	if ctx.Err() != nil && r.Context().Err() == nil && errors.Is(err, ctx.Err()) && !errors.Is(err, pawl.ErrHeld) {
		return nil, m.waited(r, name)
	}
	return lease, err
}

// waited returns the error of a request that has waited for Wait without getting the lock. It looks up the
// holders, for which Acquire had no time. If the store cannot show holders, the error still says that the name was
// held.
func (m *Middleware) waited(r *http.Request, name string) error {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	info, err := m.Locks.Inspect(ctx, name)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return &pawl.Error{Op: "acquire", Name: name, Err: &pawl.HeldError{Info: info}}
}

// refuse answers a request that has no lease. Only Report gets the error of the store, because it may name
// servers.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var held *pawl.HeldError
	var closed *pawl.ClosedError
	var bad badName
	switch {
	case r.Context().Err() != nil: // the answer has no reader, but must not be a success
		http.Error(w, "the request ended while it waited for the lock", http.StatusServiceUnavailable)
		return
	case errors.As(err, &held):
		m.locked(w, r, held.Info)
		return
	case errors.Is(err, pawl.ErrHeld):
		m.locked(w, r, nil)
		return
	case errors.As(err, &bad):
		http.Error(w, "this request cannot be locked: "+bad.Error(), http.StatusBadRequest)
		return
	case errors.As(err, &closed):
		retryAfter(w, closed.Left)
		http.Error(w, "locks are not available now; try again later", http.StatusServiceUnavailable)
	case errors.Is(err, pawl.ErrUnavailable), errors.Is(err, pawl.ErrUncertain), errors.Is(err, pawl.ErrLost),
		errors.Is(err, context.DeadlineExceeded):
		retryAfter(w, m.RetryAfter)
		http.Error(w, "locks are not available now; try again later", http.StatusServiceUnavailable)
	default:
		http.Error(w, "this request cannot be locked", http.StatusInternalServerError)
	}
	m.report(r, err)
}

func (m *Middleware) report(r *http.Request, err error) {
	if m.Report != nil {
		m.Report(r, err)
		return
	}
	slog.ErrorContext(r.Context(), "pawl: a request failed because of its lock", "method", r.Method, "path", r.URL.Path, "error", err)
}

func (m *Middleware) locked(w http.ResponseWriter, r *http.Request, info *pawl.Info) {
	if info == nil {
		info = &pawl.Info{}
	}
	show := m.Show
	if show == nil {
		show = Anonymous
	}
	retryAfter(w, m.RetryAfter)
	writeLocked(w, cmp.Or(show(r, info), &pawl.Info{}))
}
