// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/memlock"
)

// values is a server whose resources are strings, fenced by a guard.
type values struct {
	mu sync.Mutex // requests without a token are not in the guard
	by map[string]string

	entered, resume chan bool // if set, a PUT waits between check and write
}

func (v *values) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if v.entered != nil && r.Method == http.MethodPut {
		v.entered <- true
		<-v.resume
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Method == http.MethodPut {
		v.by[r.URL.Path] = string(body)
	}
	fmt.Fprintf(w, "%s, by %d", v.by[r.URL.Path], Token(r.Context()))
}

func serve(t *testing.T) (*values, *httptest.Server) {
	v := &values{by: make(map[string]string)}
	s := httptest.NewServer(Handler(new(Memory), func(r *http.Request) string { return r.URL.Path }, v))
	t.Cleanup(s.Close)
	return v, s
}

// send sends a request with a token by Transport.
func send(ctx context.Context, token pawl.Token, method, url, body string) (string, error) {
	r, err := http.NewRequestWithContext(WithToken(ctx, token), method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	return do(&http.Client{Transport: &Transport{}}, r)
}

func do(c *http.Client, r *http.Request) (string, error) {
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := FromResponse(resp); err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body))), err
}

func TestHTTP(t *testing.T) {
	v, s := serve(t)
	path := "/résumé 1"
	for _, c := range []struct {
		token        pawl.Token
		method, body string
		want         string
		stale        bool
	}{
		{33, "PUT", "one", "200 one, by 33", false},
		{34, "GET", "", "200 one, by 34", false}, // installs before it reads
		{33, "PUT", "late", "", true},
		{33, "GET", "", "", true},
		{34, "PUT", "two", "200 two, by 34", false},
		{34, "PUT", "two", "200 two, by 34", false}, // again, as the answer was lost
	} {
		got, err := send(t.Context(), c.token, c.method, s.URL+path, c.body)
		var stale *StaleError
		if got != c.want || c.stale != errors.As(err, &stale) || !c.stale && err != nil {
			t.Errorf("%d %s: %s, %v", c.token, c.method, got, err)
		}
		if c.stale && *stale != (StaleError{path, 33, 34}) {
			t.Errorf("%d %s: %+v", c.token, c.method, *stale)
		}
	}
	if v.by[path] != "two" {
		t.Errorf("in the end it is %q", v.by[path])
	}
}

// TestHTTPRefusals: what the server says of a header that is missing or garbled. The
// handler is not called.
func TestHTTPRefusals(t *testing.T) {
	v, s := serve(t)
	for _, c := range []struct {
		method string
		tokens []string
		want   string
	}{
		{"GET", nil, "200 "},
		{"HEAD", nil, "200"},
		{"PUT", nil, "428 fence: the request has no header Fencing-Token: send the lease's token"},
		{"DELETE", nil, "428 "},
		{"PUT", []string{""}, `400 header Fencing-Token: fence: "" is no fencing token`},
		{"GET", []string{"x"}, `400 header Fencing-Token: fence: "x" is no fencing token`},
		{"PUT", []string{"-33"}, `400 header Fencing-Token: fence: "-33" is no`},
		{"PUT", []string{"33, 34"}, `400 header Fencing-Token: fence: "33, 34" is no`},
		{"PUT", []string{"33", "33"}, "400 fence: the request has 2 headers Fencing-Token: send one"},
		{"PUT", []string{"9223372036854775808"}, "400 "},
	} {
		r, err := http.NewRequest(c.method, s.URL+"/x", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header[TokenHeader] = c.tokens
		if got, err := do(http.DefaultClient, r); err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s with %q: %s, %v; want %s", c.method, c.tokens, got, err, c.want)
		}
	}
	if len(v.by) > 0 {
		t.Errorf("written: %v", v.by)
	}
}

// TestHTTPPausedHandler: one that is paused between check and write keeps the next
// holder waiting, until that one's request ends.
func TestHTTPPausedHandler(t *testing.T) {
	v, s := serve(t)
	v.entered, v.resume = make(chan bool), make(chan bool)
	var wait sync.WaitGroup
	wait.Go(func() {
		if got, err := send(t.Context(), 33, "PUT", s.URL+"/x", "one"); got != "200 one, by 33" {
			t.Error(got, err)
		}
	})
	<-v.entered
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := send(ctx, 34, "GET", s.URL+"/x", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read beside a write: %s, %v", got, err)
	}
	close(v.resume)
	wait.Wait()
	if got, err := send(t.Context(), 34, "GET", s.URL+"/x", ""); got != "200 one, by 34" {
		t.Errorf("after it: %s, %v", got, err)
	}
}

type brokenGuard struct{}

func (brokenGuard) Do(context.Context, string, pawl.Token, func() error) error {
	return errors.New("the disk is broken")
}

func TestHTTPGuardFails(t *testing.T) {
	s := httptest.NewServer(Handler(brokenGuard{}, func(r *http.Request) string { return "x" },
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })))
	defer s.Close()
	if got, err := send(t.Context(), 1, "PUT", s.URL, ""); got != "503 the disk is broken" {
		t.Errorf("%s, %v", got, err)
	}
}

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wantSent checks which token Transport sends in ctx, or that it sends nothing and says why. As a RoundTripper must, it
// leaves the header of the request alone, and closes the body.
func wantSent(t *testing.T, ctx context.Context, want, refusal string) {
	t.Helper()
	for _, header := range []http.Header{nil, {TokenHeader: {"1"}}} {
		var sent []string
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Values(TokenHeader)
			r.Body.Close()
			return nil, errors.New("no answer")
		})
		body := &closer{Reader: strings.NewReader("")}
		r, err := http.NewRequestWithContext(ctx, "PUT", "http://u:secret@host/", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		if _, err := (&Transport{base}).RoundTrip(r); strings.Join(sent, ",") != want || !strings.Contains(err.Error(), refusal) || !body.closed {
			t.Errorf("sent with token %q, %v (body closed: %v); want %q and %q", sent, err, body.closed, want, refusal)
		}
		if header != nil && header.Get(TokenHeader) != "1" {
			t.Errorf("the caller's header became %v", header)
		}
	}
}

// TestTransportToken: a request has the token of WithToken, or of the lease whose context it has, as long as
// there is one token and the lease has not ended.
func TestTransportToken(t *testing.T) {
	locks, err := memlock.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	wantSent(t, t.Context(), "", "PUT http://u:xxxxx@host/ has no token")
	wantSent(t, WithToken(t.Context(), 33), "33", "")
	var ended context.Context
	err = locks.Do(t.Context(), "ledger", func(ctx context.Context, ledger *pawl.Lease) error {
		ended = ctx
		wantSent(t, ctx, fmt.Sprint(ledger.Token()), "")
		wantSent(t, WithToken(ctx, 7), "7", "")
		again := func(ctx context.Context, lease *pawl.Lease) error {
			wantSent(t, ctx, fmt.Sprint(lease.Token()), "")
			return nil
		}
		return errors.Join(locks.Do(ctx, "ledger", again, pawl.Reentrant()), locks.Do(ctx, "report", func(ctx context.Context, report *pawl.Lease) error {
			wantSent(t, ctx, "", "say whose token to send with fence.WithToken")
			wantSent(t, WithToken(ctx, ledger.Token()), fmt.Sprint(ledger.Token()), "")
			if token := Token(ctx); token != 0 {
				t.Errorf("Token = %d in two leases", token)
			}
			return nil
		}))
	})
	if err != nil {
		t.Error(err)
	}
	wantSent(t, ended, "", context.Canceled.Error())
	wantSent(t, WithToken(ended, 7), "", context.Canceled.Error())
}

// TestTransportFollows: a write that is sent on to the server that leads is fenced there.
func TestTransportFollows(t *testing.T) {
	v, leads := serve(t)
	follows := httptest.NewServer(http.RedirectHandler(leads.URL+"/x", http.StatusTemporaryRedirect))
	defer follows.Close()
	if got, err := send(t.Context(), 34, "PUT", follows.URL, "new"); got != "200 new, by 34" {
		t.Error(got, err)
	}
	if got, err := send(t.Context(), 33, "PUT", follows.URL, "old"); !errors.Is(err, ErrStale) || v.by["/x"] != "new" {
		t.Errorf("an old token: %s, %v", got, err)
	}
}

func TestFromResponse(t *testing.T) {
	response := func(status int, seen ...string) *http.Response {
		h := http.Header{TokenHeader: {"33"}, ResourceHeader: {"a%2Fb"}}
		h[SeenHeader] = seen
		return &http.Response{StatusCode: status, Header: h}
	}
	for _, r := range []*http.Response{response(200, "34"), response(409, "34"), response(412)} {
		if err := FromResponse(r); err != nil {
			t.Errorf("%d %v: %v", r.StatusCode, r.Header, err)
		}
	}
	var stale *StaleError
	if err := FromResponse(response(412, "34")); !errors.As(err, &stale) || *stale != (StaleError{"a/b", 33, 34}) {
		t.Error(err)
	}
	if err := FromResponse(response(412, "x")); !errors.Is(err, ErrStale) || errors.As(err, &stale) {
		t.Errorf("garbled: %v", err)
	}
}
