// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/memlock"
)

// TestBreak: a lease is broken if that is allowed, by whoever has the token, through no
// other site, with a reason; and only the lease that was looked at.
func TestBreak(t *testing.T) {
	const token = "0123456789abcdef"
	good := map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Origin": "http://localhost:7295"}
	for _, c := range []struct {
		what        string
		deny        bool
		method      string
		key, header string // instead of the one in good
		old, new    string // in the body
		want        int
	}{
		{want: 200},
		{what: "no browser", key: "Origin", want: 200},
		{what: "our page, as the browser says", key: "Sec-Fetch-Site", header: "same-origin", want: 200},
		{what: "not allowed", deny: true, want: 405},
		{what: "no token", key: "Authorization", want: 401},
		{what: "another token", key: "Authorization", header: "Bearer 0123456789abcdee", want: 401},
		{what: "another site", key: "Origin", header: "http://evil.example", want: 403},
		{what: "another port", key: "Origin", header: "http://localhost:80", want: 403},
		{what: "a page in a frame of another site", key: "Origin", header: "null", want: 403},
		{what: "another site, as the browser says", key: "Sec-Fetch-Site", header: "same-site", want: 403},
		{what: "by GET", method: "GET", want: 405},
		{what: "what a browser asks before", method: "OPTIONS", want: 405},
		{what: "no reason", old: "it hangs", new: " ", want: 400},
		{what: "no lease", old: "LEASE", want: 400},
		{what: "another lease", old: "LEASE", new: "x", want: 409},
		{what: "a name that nobody holds", old: "deploy", new: "other", want: 409},
		{what: "another store", old: "mem:", new: "mem:x", want: 404},
		{what: "another field", old: `"why"`, new: `"x":1,"why"`, want: 400},
		{what: "no JSON", old: "{", want: 400},
	} {
		bubble(t, func(t *testing.T, s *Server, store *memlock.Store) {
			s.Break, s.Token = !c.deny, token
			lease, err := open(t, store).Acquire(t.Context(), "deploy")
			if err != nil {
				t.Fatal(err)
			}
			body := strings.Replace(strings.Replace(`{"store":"mem:","name":"deploy","lease":"LEASE","why":"it hangs"}`, c.old, c.new, 1), "LEASE", lease.ID(), 1)
			method := "POST"
			if c.method != "" {
				method = c.method
			}
			r := httptest.NewRequest(method, "http://localhost:7295/api/break", strings.NewReader(body))
			for key, value := range good {
				r.Header.Set(key, value)
			}
			if c.key != "" {
				r.Header.Set(c.key, c.header)
			}
			w := httptest.NewRecorder()
			s.handle(w, r)
			synctest.Wait()
			if broken := lease.Err() != nil; w.Code != c.want || broken != (c.want == http.StatusOK) {
				t.Errorf("%s: %d %s, broken: %v; want %d", c.what, w.Code, w.Body, broken, c.want)
			}
			if err := lease.Err(); err != nil && !strings.Contains(err.Error(), "it hangs") {
				t.Errorf("the holder is told %v", err)
			}
		})
	}
}

// TestBreakOfAStoreThatIsAway: it says so, and does not wait for it.
func TestBreakOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New([]*history.Source{{Name: "mem:", Open: func() (*pawl.Client, error) { return nil, context.DeadlineExceeded }}}, Options{Break: true})
		began := time.Now()
		if code, err := s.doBreak(t.Context(), &breakRequest{"mem:", "deploy", "x", "it hangs"}); code != http.StatusServiceUnavailable || err == nil {
			t.Errorf("%d, %v", code, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}
