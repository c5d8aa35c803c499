// SPDX-License-Identifier: Apache-2.0

package adapthttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt/adapthttp"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/memlock"
)

var background = context.Background()

// world is a middleware whose client reaches the store through link, and another
// participant.
type world struct {
	adapthttp.Middleware
	link  *drivertest.Faulty
	other *pawl.Client
	told  []error
}

func open(t *testing.T, d driver.Store, who string) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, &pawl.Options{Holder: pawl.Holder{Who: who}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func newWorld(t *testing.T) *world {
	s := new(memlock.Store)
	link := drivertest.NewFaulty(s.Participant())
	w := &world{link: link, other: open(t, s.Participant(), "alice")}
	w.Locks = open(t, link, "server")
	w.Name = func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }
	w.Report = func(_ *http.Request, err error) { w.told = append(w.told, err) }
	return w
}

// inWorld runs f in a bubble of fake time.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

func (w *world) take(t *testing.T, name string) *pawl.Lease {
	t.Helper()
	l, err := w.other.TryAcquire(background, name, pawl.Why("secret plans"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) wantFree(t *testing.T, name string) { t.Helper(); give(t, w.take(t, name)) }

func give(t *testing.T, l *pawl.Lease) {
	t.Helper()
	if err := l.Release(background); err != nil {
		t.Fatal(err)
	}
}

// breakLease ends the lease of a request.
func (w *world) breakLease(t *testing.T, r *http.Request) {
	t.Helper()
	l := leaseOf(r)
	if err := w.other.Break(background, l.Name(), l.ID(), "a test"); err != nil {
		t.Error(err)
	}
	<-r.Context().Done()
	if err := context.Cause(r.Context()); !errors.Is(err, pawl.ErrLost) {
		t.Errorf("the request's context ends with %v, want ErrLost", err)
	}
}

// get makes a request and checks the status and what Report is told.
func (w *world) get(t *testing.T, path string, status int, told error, handle http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	return w.do(t, httptest.NewRequest("GET", path, nil), status, told, handle)
}

func (w *world) do(t *testing.T, r *http.Request, status int, told error, handle http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	w.told = nil
	if handle == nil {
		handle = func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }
	}
	answer := httptest.NewRecorder()
	func() {
		defer func() {
			if v := recover(); v == http.ErrAbortHandler {
				t.Error("the response is broken off")
			} else if v != nil {
				panic(v)
			}
		}()
		w.Handler(handle).ServeHTTP(answer, r)
	}()
	if answer.Code != status {
		t.Errorf("status %d, want %d: %s", answer.Code, status, answer.Body)
	}
	if (told == nil) != (len(w.told) == 0) || told != nil && !is(w.told[0], told) || len(w.told) > 1 {
		t.Errorf("Report is told %v, want %v", w.told, told)
	}
	return answer
}

func TestOneRequestAtATime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		answer := w.get(t, "/a", 201, nil, func(rw http.ResponseWriter, r *http.Request) {
			lease := leaseOf(r)
			if lease.Name() != "a" || lease.Token() == 0 || lease.Err() != nil {
				t.Errorf("lease %q, token %d, %v", lease.Name(), lease.Token(), lease.Err())
			}
			if _, err := w.other.TryAcquire(background, "a"); !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("while the request runs: %v, want ErrHeld", err)
			}
			w.get(t, "/a", 423, nil, nil)
			w.get(t, "/b", 200, nil, func(http.ResponseWriter, *http.Request) {})
			rw.WriteHeader(201)
			fmt.Fprint(rw, "done")
		})
		if answer.Body.String() != "done" {
			t.Errorf("body %q", answer.Body)
		}
		w.wantFree(t, "a")

		func() {
			defer func() { _ = recover() }()
			w.get(t, "/a", 200, nil, func(http.ResponseWriter, *http.Request) { panic("boom") })
		}()
		w.wantFree(t, "a")
	})
}

func TestLocked(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		theirs := w.take(t, "a")
		want := `{"schema":1,"lock":{"name":"a","held":true,"token":0,"holders":[{"lease":"","acquired":"2000-01-01T00:00:00Z"}],"waiters":[]}}` + "\n"
		answer := w.get(t, "/a", 423, nil, nil)
		body := strings.Replace(answer.Body.String(), time.Now().Format("2006-01-02T15:04:05Z07:00"), "2000-01-01T00:00:00Z", 1)
		if body != want {
			t.Errorf("a stranger is told\n%s want\n%s", body, want)
		}
		h := answer.Header()
		if h.Get("Content-Type") != "application/json" || h.Get("Retry-After") != "1" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("header %v", h)
		}

		w.RetryAfter, w.Show = 1500*time.Millisecond, adapthttp.Everything
		answer = w.get(t, "/a", 423, nil, nil)
		for _, s := range []string{`"who":"alice"`, `"why":"secret plans"`, `"lease":"` + theirs.ID() + `"`, `"token":1`} {
			if !strings.Contains(answer.Body.String(), s) {
				t.Errorf("%s is missing in %s", s, answer.Body)
			}
		}
		if got := answer.Header().Get("Retry-After"); got != "2" {
			t.Errorf("Retry-After %s, want 2", got)
		}
		w.Show = func(*http.Request, *pawl.Info) *pawl.Info { return nil }
		if s := w.get(t, "/a", 423, nil, nil).Body.String(); strings.Contains(s, "alice") || !strings.Contains(s, `"holders":[]`) {
			t.Errorf("nothing is shown as %s", s)
		}
		give(t, theirs)
	})
}

func TestWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Wait = 10 * time.Second
		theirs := w.take(t, "a")
		began := time.Now()
		answer := w.get(t, "/a", 423, nil, nil)
		if time.Since(began) != w.Wait || !strings.Contains(answer.Body.String(), `"acquired"`) {
			t.Errorf("after %v it answers %s", time.Since(began), answer.Body)
		}
		w.link.Add(drivertest.Rule{Op: drivertest.Inspect, Count: 2})
		w.get(t, "/a", 503, pawl.ErrUnavailable, nil)

		time.AfterFunc(time.Second, func() { theirs.Release(background) })
		w.get(t, "/a", 200, nil, func(http.ResponseWriter, *http.Request) {})
		w.wantFree(t, "a")

		// The client goes away while it waits.
		theirs = w.take(t, "a")
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Second, cancel)
		w.do(t, httptest.NewRequestWithContext(ctx, "GET", "/a", nil), 503, nil, nil)
		give(t, theirs)
		w.wantFree(t, "a")
	})
}

// The name is held until the work is done, also if it is answered that it takes too
// long. An http.TimeoutHandler within would give it back before that.
func TestTimeoutHandlerAround(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		worked := make(chan bool)
		slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Second)
			if _, err := w.other.TryAcquire(background, "a"); !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("while the work goes on: %v, want ErrHeld", err)
			}
			close(worked)
		})
		answer := httptest.NewRecorder()
		http.TimeoutHandler(w.Handler(slow), time.Second, "").ServeHTTP(answer, httptest.NewRequest("GET", "/a", nil))
		if answer.Code != 503 {
			t.Errorf("status %d, want 503", answer.Code)
		}
		<-worked
		synctest.Wait()
		w.wantFree(t, "a")
	})
}

// closed is a store that grants nothing for a while.
type closed struct{ driver.Store }

func (closed) Ask(context.Context, *driver.Request) (driver.Answer, error) {
	return driver.Answer{Closed: 90 * time.Second}, nil
}

func TestNoLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if body := w.get(t, "/", 500, errorLike("returns no name"), nil).Body.String(); strings.Contains(body, "adapthttp") {
			t.Errorf("a stranger is told %q", body)
		}
		body := w.get(t, "/a%0ab", 400, nil, nil).Body.String()
		if !strings.Contains(body, "control character") {
			t.Errorf("the answer %q does not say what is wrong with the name", body)
		}

		w.link.Cut()
		answer := w.get(t, "/a", 503, pawl.ErrUnavailable, nil)
		if strings.Contains(answer.Body.String(), "cut off") || answer.Header().Get("Retry-After") != "1" {
			t.Errorf("a stranger is told %q, header %v", answer.Body, answer.Header())
		}
		w.link.Heal()

		w.link.Add(drivertest.Rule{Op: drivertest.Ask, Count: 1, Effect: drivertest.FailAfter})
		w.get(t, "/a", 503, pawl.ErrUncertain, nil)

		w.link.Add(drivertest.Rule{Op: drivertest.End, Name: "b", Count: 1}) // what was uncertain is undone meanwhile
		w.get(t, "/b", 200, pawl.ErrUnavailable, func(http.ResponseWriter, *http.Request) {})

		w.Options = []pawl.Option{pawl.Slots(0)}
		w.get(t, "/a", 500, errorLike("Slots(0)"), nil)

		w.Options, w.Locks = nil, open(t, closed{new(memlock.Store).Participant()}, "server")
		if got := w.get(t, "/a", 503, pawl.ErrUnavailable, nil).Header().Get("Retry-After"); got != "90" {
			t.Errorf("Retry-After %s of a store that is closed for 90 s", got)
		}
	})
}

// errorLike matches errors whose text has it.
type errorLike string

func (e errorLike) Error() string { return "an error with " + string(e) }

func is(err, want error) bool {
	text, ok := want.(errorLike)
	return errors.Is(err, want) || ok && strings.Contains(err.Error(), string(text))
}

func TestReportByDefault(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	inWorld(t, func(t *testing.T, w *world) {
		w.Report = nil
		w.link.Cut()
		w.get(t, "/a", 503, nil, nil)
		if !strings.Contains(log.String(), pawl.ErrUnavailable.Error()) {
			t.Errorf("an outage is logged as %q", &log)
		}
	})
}

// leaseOf returns the lease under which a request runs.
func leaseOf(r *http.Request) *pawl.Lease {
	lease, _ := pawl.LeaseFrom(r.Context())
	return lease
}
