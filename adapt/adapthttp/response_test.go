// SPDX-License-Identifier: Apache-2.0

package adapthttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// Whatever a handler answers after its lease was lost, it is no success.
func TestNoSuccessAfterALoss(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		answer func(rw http.ResponseWriter) error
	}{
		{"nothing", 503, func(http.ResponseWriter) error { return nil }},
		{"status", 503, func(rw http.ResponseWriter) error { rw.WriteHeader(204); return nil }},
		{"body", 503, func(rw http.ResponseWriter) error {
			rw.Header().Set("Content-Encoding", "gzip")
			if _, err := fmt.Fprint(rw, "paid"); !errors.Is(err, pawl.ErrLost) {
				return fmt.Errorf("Write = %v, want ErrLost", err)
			}
			return nil
		}},
		{"redirect", 503, func(rw http.ResponseWriter) error { rw.WriteHeader(303); return nil }},
		{"flush", 503, func(rw http.ResponseWriter) error {
			if err := http.NewResponseController(rw).Flush(); !errors.Is(err, pawl.ErrLost) {
				return fmt.Errorf("Flush = %v, want ErrLost", err)
			}
			return nil
		}},
		{"failure", 409, func(rw http.ResponseWriter) error { rw.WriteHeader(409); return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				answer := w.get(t, "/a", c.status, pawl.ErrLost, func(rw http.ResponseWriter, r *http.Request) {
					w.breakLease(t, r)
					if err := c.answer(rw); err != nil {
						t.Error(err)
					}
				})
				if h := answer.Header().Get("Content-Encoding"); h != "" {
					t.Errorf("Content-Encoding %s", h)
				}
				w.wantFree(t, "a")
			})
		})
	}
}

// A response that has been begun is broken off, over a real connection.
func TestBrokenOffAfterALoss(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name string
		lose bool
		want error
	}{
		{"lost", true, io.ErrUnexpectedEOF},
		{"held", false, nil}, // or it would prove nothing
	} {
		t.Run(c.name, func(t *testing.T) {
			w.told = nil
			srv := httptest.NewServer(w.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				fmt.Fprint(rw, "half")
				rw.(http.Flusher).Flush()
				if c.lose {
					w.breakLease(t, r)
				}
			})))
			resp, err := http.Get(srv.URL + "/a")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			srv.Close() // the handler has returned
			if !errors.Is(err, c.want) || string(body) != "half" {
				t.Errorf("body %q, %v; want %v", body, err, c.want)
			}
			if c.lose != (len(w.told) == 1) {
				t.Errorf("Report is told %v", w.told)
			}
			w.wantFree(t, "a")
		})
	}
}

// A lease that the handler has given back early is not a lost one.
func TestReleasedEarly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.get(t, "/a", 200, nil, func(rw http.ResponseWriter, r *http.Request) {
			give(t, leaseOf(r))
			fmt.Fprint(rw, "and now for what takes long")
		})
	})
}

// deaf is a store of whose leases nobody hears that they are lost.
type deaf struct{ driver.Store }

func (d deaf) Listen(func(driver.Event)) { d.Store.Listen(func(driver.Event) {}) }

// What the store tells when the lease is given back, and not before, is a loss too.
func TestNoSuccessAfterALossHeardOfLate(t *testing.T) {
	for _, status := range []int{0, 200} {
		inWorld(t, func(t *testing.T, w *world) {
			s := new(memlock.Store)
			w.other, w.Locks = open(t, s.Participant(), "alice"), open(t, deaf{s.Participant()}, "server")
			var broken any
			answer := httptest.NewRecorder()
			func() {
				defer func() { broken = recover() }()
				w.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					l := leaseOf(r)
					if err := w.other.Break(background, l.Name(), l.ID(), "a test"); err != nil {
						t.Error(err)
					}
					if status != 0 {
						rw.WriteHeader(status)
					}
				})).ServeHTTP(answer, httptest.NewRequest("GET", "/a", nil))
			}()
			if status == 0 && answer.Code != 503 || status != 0 && broken != http.ErrAbortHandler {
				t.Errorf("the handler writes %d: it is answered %d, broken off with %v", status, answer.Code, broken)
			}
			if len(w.told) != 1 || !errors.Is(w.told[0], pawl.ErrLost) {
				t.Errorf("Report is told %v", w.told)
			}
			w.wantFree(t, "a")
		})
	}
}
