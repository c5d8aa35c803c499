// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawl-go/pawl"
)

// Header fields. A token is in decimal digits; the resource is escaped as part of
// a path is.
const (
	TokenHeader    = "Fencing-Token"          // of the request, and repeated in a refusal
	SeenHeader     = "Fencing-Token-Seen"     // of a refusal: the largest
	ResourceHeader = "Fencing-Token-Resource" // of a refusal
)

// TokenError says that a request has no token (428 Precondition Required), or
// one that cannot be read (400 Bad Request).
type TokenError struct {
	Status int   // of the answer
	Err    error // what is wrong with the token
}

// Error returns the text of Err.
func (e *TokenError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TokenError) Unwrap() error { return e.Err }

// FromHeader returns the token of a request, or a *TokenError.
func FromHeader(h http.Header) (pawl.Token, error) {
	switch values := h.Values(TokenHeader); len(values) {
	case 0:
		return 0, &TokenError{http.StatusPreconditionRequired,
			fmt.Errorf("fence: the request has no header %s: send the lease's token", TokenHeader)}
	case 1:
		token, err := ParseToken(values[0])
		if err != nil {
			return 0, &TokenError{http.StatusBadRequest, fmt.Errorf("header %s: %w", TokenHeader, err)}
		}
		return token, nil
	default:
		return 0, &TokenError{http.StatusBadRequest,
			fmt.Errorf("fence: the request has %d headers %s: send one", len(values), TokenHeader)}
	}
}

// Handler returns a handler that calls next within g.Do for the resource that the
// request is about. So next must not go on writing after it has returned: put an
// http.TimeoutHandler around this handler, not into it. A request that only reads (GET, HEAD, OPTIONS) may come without a token; with one it
// raises the resource's token, as a new holder's first read should. The token is in
// the context that next gets, see Token.
//
// A request that is refused is answered as WriteError does. Whoever may send a token may
// send a large one: check who it is before.
//
// A Memory will do if the data is in the memory of the server too, and there is one
// server. A Dir will if the data is on its disk. What next does elsewhere, in a
// service behind it for one, may arrive there after it has returned, or while
// it is paused, and only that service can refuse it.
//
// Where the data is in a database, its transaction has to be fenced instead: use
// FromHeader, Install and WriteError in the handler.
func Handler(g Guard, resource func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values(TokenHeader)) == 0 && reads(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		token, err := FromHeader(r.Header)
		if err == nil {
			err = g.Do(r.Context(), resource(r), token, func() error {
				next.ServeHTTP(w, r.WithContext(WithToken(r.Context(), token)))
				return nil
			})
		}
		if err != nil {
			WriteError(w, err)
		}
	})
}

func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// WriteError answers a request that err has kept from being carried out: with 412
// Precondition Failed and both tokens for a *StaleError, the status of a
// *TokenError, and otherwise 503 Service Unavailable: the token could not be
// checked. The body is the error's text. It is 412 and not 409 Conflict, as the token is a precondition in a
// header, and to send the same again cannot help.
func WriteError(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var stale *StaleError
	var token *TokenError
	switch {
	case errors.As(err, &stale):
		status = http.StatusPreconditionFailed
		h := w.Header()
		h.Set(TokenHeader, strconv.FormatUint(uint64(stale.Token), 10))
		h.Set(SeenHeader, strconv.FormatUint(uint64(stale.Seen), 10))
		h.Set(ResourceHeader, url.PathEscape(stale.Resource))
	case errors.As(err, &token):
		status = token.Status
	}
	http.Error(w, err.Error(), status)
}

// FromResponse returns the *StaleError that WriteError has put into a response, or
// nil if it is another response. One that is garbled is ErrStale too. It does not
// close the body.
func FromResponse(resp *http.Response) error {
	if resp.StatusCode != http.StatusPreconditionFailed || len(resp.Header.Values(SeenHeader)) == 0 {
		return nil // a 412 of somebody else, of If-Match for one
	}
	token, err := ParseToken(resp.Header.Get(TokenHeader))
	seen, err2 := ParseToken(resp.Header.Get(SeenHeader))
	resource, err3 := url.PathUnescape(resp.Header.Get(ResourceHeader))
	if err := errors.Join(err, err2, err3); err != nil {
		return fmt.Errorf("%w, and the answer that says so is garbled: %w", ErrStale, err)
	}
	return &StaleError{resource, token, seen}
}

type tokenKey struct{}

// WithToken returns a copy of ctx with a token, for Transport and Token. The context of a lease
// has one without it.
func WithToken(ctx context.Context, token pawl.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the token that WithToken has put into ctx, or else that of the lease in whose
// context ctx was made, see pawl.LeaseFrom. It returns 0 if there is none, or if ctx is from
// leases on several names: only the caller knows which of them is the lock of the resource.
func Token(ctx context.Context) pawl.Token {
	token, err := tokenFrom(ctx)
	if err != nil {
		return 0
	}
	return token
}

func tokenFrom(ctx context.Context) (pawl.Token, error) {
	if token, ok := ctx.Value(tokenKey{}).(pawl.Token); ok {
		return token, nil
	}
	lease, ok := pawl.LeaseFrom(ctx)
	if !ok {
		return 0, errors.New("no token: use the context of a lease, or fence.WithToken")
	}
	for _, outer := range pawl.LeasesFrom(ctx) {
		if outer.Name() != lease.Name() || outer.Token() != lease.Token() {
			return 0, fmt.Errorf("the context of the leases on %q and %q: say whose token to send with fence.WithToken", outer.Name(), lease.Name())
		}
	}
	if lease.Token() == 0 {
		return 0, fmt.Errorf("no token, as the store of the lease on %q has none: use a store that has them, and ask for that with Options.Require", lease.Name())
	}
	return lease.Token(), nil
}

// Transport sends requests with the token of their context, see Token. A request without a
// token, or with several, is not sent, nor one whose context has ended: make it with the lease's context, such
// as Client.Do gives to its function. FromResponse tells which were refused.
//
// When an answer does not come, the request may be carried out later, if it is not
// stale then.
//
// The token goes along when an http.Client follows a redirect, to another host too: a
// service may send its clients to the server that leads. It is no secret; but a service
// that is not trusted should not choose where it goes: see http.Client.CheckRedirect.
type Transport struct {
	Base http.RoundTripper // http.DefaultTransport if nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, noToken := tokenFrom(r.Context())
	err := r.Context().Err() // a lease's context looks at the clock
	if err == nil && noToken != nil {
		err = fmt.Errorf("fence: %s %s has %w", r.Method, r.URL.Redacted(), noToken)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set(TokenHeader, strconv.FormatUint(uint64(token), 10))
	if t.Base == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.Base.RoundTrip(r)
}
