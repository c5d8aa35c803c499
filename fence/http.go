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

// Header fields. A token is written in decimal digits. A resource is escaped like a segment of a path.
const (
	TokenHeader    = "Fencing-Token"          // in a request, and repeated in a refusal
	SeenHeader     = "Fencing-Token-Seen"     // in a refusal: the largest token that the resource has seen
	ResourceHeader = "Fencing-Token-Resource" // in a refusal
)

// TokenError is the error of a request without a token (428 Precondition Required), or with a token that cannot be
// read (400 Bad Request).
type TokenError struct {
	Status int   // the HTTP status of the answer
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

// Handler returns a handler that calls next within g.Do for the resource of the request. So next must not write
// after it has returned: put an http.TimeoutHandler around this handler, not inside. A request that only reads
// (GET, HEAD, OPTIONS) may come without a token. With a token it raises the resource's token, as the first read of
// a new holder should. next gets the token from its context; see Token.
//
// WriteError answers a refused request. A client that may send a token may send a large one, so authenticate
// clients first.
//
// Use a Memory if the data are in the memory of one server, and a Dir if they are on its disk. If next sends a
// request to another service, it may arrive there late, and only that service can refuse it.
//
// If the data are in a database, fence the transaction instead: use FromHeader, Install and WriteError in your
// handler.
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

// WriteError answers a request that failed with err. For a *StaleError it sends 412 Precondition Failed and both
// tokens. For a *TokenError it sends the error's status, and otherwise 503 Service Unavailable. The body is the
// text of the error.
//
// 412 fits better than 409 Conflict: the token is a precondition in a header, and the same request cannot succeed
// later.
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

// FromResponse returns the *StaleError that WriteError wrote into a response, or nil for any other response. If
// the header fields are garbled, the error also matches ErrStale. FromResponse does not close the body.
func FromResponse(resp *http.Response) error {
	if resp.StatusCode != http.StatusPreconditionFailed || len(resp.Header.Values(SeenHeader)) == 0 {
		return nil // another 412, for example because of If-Match
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

// WithToken returns a copy of ctx with a token, for Transport and Token. The context of a lease has the lease's
// token without it.
func WithToken(ctx context.Context, token pawl.Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Token returns the token that WithToken put into ctx, or else the token of the lease to which ctx belongs; see
// pawl.LeaseFrom. It returns 0 if there is no token. It also returns 0 if ctx belongs to leases on several names,
// because only the caller knows which of them protects the resource.
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

// Transport sends each request with the token of its context; see Token. Make requests with the context of a
// lease, such as Client.Do passes to its function. Transport does not send a request without a token, with several
// tokens, or with a context that has ended. FromResponse recognizes a refusal.
//
// If a request has no answer, the server may still carry it out, as long as the token is not stale.
//
// If an http.Client follows a redirect, the token goes along, even to another host, because a service may redirect
// to the server that leads. A token is not secret. But a service that you do not trust should not choose where
// tokens go: see http.Client.CheckRedirect.
type Transport struct {
	Base http.RoundTripper // http.DefaultTransport if nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, noToken := tokenFrom(r.Context())
	err := r.Context().Err() // a lease's context checks the clock
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
