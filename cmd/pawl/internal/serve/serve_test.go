// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// bubble runs f with a Server of a store in memory that is being asked, in fake time.
func bubble(t *testing.T, f func(t *testing.T, s *Server, store *memlock.Store)) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memlock.Store)
		s := New([]*history.Source{{Name: "mem:", Open: func() (*pawl.Client, error) { return store.Open(nil) }}}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		go s.poll(ctx, 0)
		synctest.Wait()
		f(t, s, store)
		cancel()
	})
}

// running runs f until stop is called or the test ends.
func running(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// watched adds a watcher, as a page that is open, until stop is called.
func watched(s *Server) (stop func()) {
	w := s.watch()
	go func() {
		for range w {
		}
	}()
	return func() { s.unwatch(w); close(w) }
}

func open(t *testing.T, store *memlock.Store) *pawl.Client {
	t.Helper()
	l, err := store.Open(&pawl.Options{Holder: pawl.Holder{Who: "tester", Host: t.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// get asks s for path. Headers are pairs.
func get(s *Server, path string, pairs ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://localhost"+path, nil)
	for i := 0; i < len(pairs); i += 2 {
		if r.Header.Set(pairs[i], pairs[i+1]); pairs[i] == "Host" {
			r.Host = pairs[i+1]
		}
	}
	if path == "/api/events" { // or it goes on
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		r = r.WithContext(ctx)
	}
	w := httptest.NewRecorder()
	s.handle(w, r)
	return w
}

// TestLocks: the API tells what is held now, also if nobody has looked for a while.
func TestLocks(t *testing.T) {
	bubble(t, func(t *testing.T, s *Server, store *memlock.Store) {
		l := open(t, store)
		time.Sleep(10 * time.Second)
		lease, err := l.Acquire(t.Context(), "deploy", pawl.Why("release 7"))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = l.Acquire(t.Context(), "deploy", pawl.Shared()) }()
		synctest.Wait()
		var got locksJSON
		answer := get(s, "/api/locks")
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Schema != 1 || len(got.Stores) != 1 || len(got.Stores[0].Locks) != 1 {
			t.Fatalf("%v: %s", err, answer.Body)
		}
		lock := got.Stores[0].Locks[0]
		if lock.Name != "deploy" || len(lock.Holders) != 1 || lock.Holders[0].Lease != lease.ID() || lock.Holders[0].Why != "release 7" || lock.Holders[0].Who != "tester" {
			t.Errorf("the lock is %+v", lock)
		}
		if m := get(s, "/metrics").Body.String(); !strings.Contains(m, `pawl_serve_locks_held{store="mem:"} 1`) || strings.Contains(m, "deploy") {
			t.Errorf("the metrics are\n%s", m)
		}
	})
}

// TestSchema: the JSON has these fields. While the schema is 1, none goes and none is
// renamed.
func TestSchema(t *testing.T) {
	t.Parallel()
	const (
		person = " who user host pid space command trace why"
		holder = person + " lease token acquired renewed expires keeps idle orphan shared slots transaction"
		waiter = person + " lease since shared slots holds local"
		state  = "max_ttl max_ttl_set_by closed closed_until closed_because"
		store  = " store asked took error partly state"
		span   = "id store name what person host kind why token from to late state"
	)
	for _, c := range []struct {
		of   any
		want string
	}{
		{locksJSON{}, "schema stores"},
		{storeJSON{}, store + " locks"},
		{message{}, "schema all break now stores spans"},
		{breakRequest{}, "store name lease why"},
		{report.Broken{}, "schema store name broken"},
		{change{}, store + " locks gone deadlocks often"},
		{history.Span{}, span},
		{report.Lock{}, "name held token holders waiters"},
		{driver.Held{}, holder},
		{driver.Waiter{}, waiter},
		{driver.Hold{}, "name lease"},
		{report.State{}, state},
	} {
		got, want := fields(reflect.TypeOf(c.of)), strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%T has the fields %q; want %q", c.of, got, want)
		}
	}
}

// fields returns the names that the fields of a struct have in JSON.
func fields(of reflect.Type) (names []string) {
	for f := range of.Fields() {
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case f.Anonymous:
			names = append(names, fields(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

// TestAsking: a store is asked every second while somebody looks, every half minute while
// nobody does, and at once when somebody comes.
func TestAsking(t *testing.T) {
	bubble(t, func(t *testing.T, s *Server, _ *memlock.Store) {
		asked := func(d time.Duration) (n int) {
			for end := time.After(d); ; n++ {
				s.mu.Lock()
				answered := s.stores[0].answered
				s.mu.Unlock()
				select {
				case <-answered:
				case <-end:
					return n
				}
			}
		}
		if n := asked(10*time.Minute + time.Second); n != 20 {
			t.Errorf("asked %d times in ten minutes in which nobody looked; want 20", n)
		}
		leave := watched(s)
		if n := asked(time.Minute + time.Second/2); n < 60 || n > 61 {
			t.Errorf("asked %d times in a minute in which somebody looked; want 60, and once when he came", n)
		}
		leave()
		asked(time.Minute)
		if n := asked(10 * time.Minute); n < 19 || n > 20 {
			t.Errorf("asked %d times in ten minutes after he had gone; want 20", n)
		}
	})
}

// slowStore takes two seconds to list.
type slowStore struct {
	driver.Store
	lists atomic.Int64
}

func (s *slowStore) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	s.lists.Add(1)
	time.Sleep(2 * time.Second)
	return s.Store.List(ctx, prefix)
}

// TestSlowStore: to ask it takes at most a tenth of the time.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: new(memlock.Store).Participant()}
		s := New([]*history.Source{{Name: "mem:", Open: func() (*pawl.Client, error) { return pawl.New(store, nil) }}}, Options{})
		defer watched(s)()
		ctx, cancel := context.WithCancel(t.Context())
		go s.poll(ctx, 0)
		time.Sleep(10*time.Minute - time.Second)
		if n := store.lists.Load(); n != 30 {
			t.Errorf("a store that takes two seconds is asked %d times in ten minutes; want 30", n)
		}
		cancel()
	})
}

// TestEndsWhateverAStoreDoes: one that hangs, as a directory of a server that is gone, keeps Run from nothing.
func TestEndsWhateverAStoreDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		s := New([]*history.Source{{Name: "mem:", Open: func() (*pawl.Client, error) {
			<-hangs
			return nil, errors.New("no")
		}}}, Options{})
		defer close(hangs)
		stop := running(t, func(ctx context.Context) error { return s.Run(ctx, make(pipes)) })
		synctest.Wait()
		began := time.Now()
		if stop(); time.Since(began) > stopping {
			t.Errorf("Run has ended %v after its context", time.Since(began))
		}
	})
}

// TestAway: what was known stays while the store is away, with its age; and it comes back.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memlock.Store)
		if _, err := open(t, store).Acquire(t.Context(), "deploy"); err != nil {
			t.Fatal(err)
		}
		var up atomic.Bool
		s := New([]*history.Source{{Name: "mem:", Open: func() (*pawl.Client, error) {
			if !up.Load() {
				return nil, errors.New("the store is away")
			}
			return store.Open(nil)
		}}}, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.poll(ctx, 0)
		if got := get(s, "/api/locks").Body.String(); !strings.Contains(got, `"error":"the store is away"`) || strings.Contains(got, "deploy") {
			t.Errorf("got %s", got)
		}
		if got := get(s, "/metrics").Body.String(); !strings.Contains(got, `pawl_serve_up{store="mem:"} 0`) {
			t.Errorf("got %s", got)
		}
		up.Store(true)
		time.Sleep(2 * time.Second)
		if got := get(s, "/api/locks").Body.String(); strings.Contains(got, "error") || !strings.Contains(got, "deploy") {
			t.Errorf("got %s", got)
		}
		s.take(0, history.Look{At: time.Now(), Err: context.DeadlineExceeded})
		if got := get(s, "/api/locks").Body.String(); !strings.Contains(got, `"error":"context deadline exceeded"`) || !strings.Contains(got, "deploy") {
			t.Errorf("got %s", got)
		}
	})
}

// TestGuard: whom a request reaches.
func TestGuard(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	secret := New(nil, Options{Token: token, Hosts: []string{"Locks.Example.", ""}})
	for _, c := range []struct {
		s    *Server
		path string
		args []string
		want int
	}{
		{New(nil, Options{}), "/api/locks", nil, 200},
		{secret, "/", nil, 200},
		{secret, "/page.js", nil, 200},
		{secret, "/healthz", nil, 200},
		{secret, "/api/locks", nil, 401},
		{secret, "/api/events", nil, 401},
		{secret, "/metrics", nil, 401},
		{secret, "/api/locks", []string{"Authorization", "Bearer " + token}, 200},
		{secret, "/api/locks", []string{"Authorization", "bearer " + token}, 200},
		{secret, "/api/locks", []string{"Authorization", "Basic " + token}, 401},
		{secret, "/api/locks", []string{"Authorization", "Bearer " + token + "0"}, 401},
		{secret, "/api/locks", []string{"Authorization", "Bearer "}, 401},
		{secret, "/api/locks", []string{"Authorization", token}, 401},
		{secret, "/nothing", nil, 404},
		{secret, "/page/page.js", nil, 404},
		{secret, "/../serve.go", nil, 404},
		{secret, "/", []string{"Host", "locks.example:7295"}, 200},
		{secret, "/", []string{"Host", "evil.example"}, 403},
		{secret, "/", []string{"Host", "localhost.evil.example"}, 403},
		{secret, "/", []string{"Host", "127.0.0.1.evil.example:7295"}, 403},
		{secret, "/", []string{"Host", ""}, 403},
		{secret, "/", []string{"Host", "127.0.0.1:7295"}, 200},
		{secret, "/", []string{"Host", "[::1]:7295"}, 200},
		{secret, "/", []string{"Host", "LOCALHOST"}, 200},
	} {
		got := get(c.s, c.path, c.args...)
		if got.Code != c.want {
			t.Errorf("%s with %q: %d %s; want %d", c.path, c.args, got.Code, got.Body, c.want)
		}
		for key, value := range headers {
			if got.Header().Get(key) != value {
				t.Errorf("%s has no %s: %s", c.path, key, value)
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		w := httptest.NewRecorder()
		New(nil, Options{}).handle(w, httptest.NewRequest(method, "http://localhost/api/locks", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// TestPages: every file of the page is served, and none makes elements of text.
func TestPages(t *testing.T) {
	t.Parallel()
	entries, err := files.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := "/" + e.Name()
		got := get(New(nil, Options{}), path)
		text := got.Body.String()
		if kind := kinds[filepath.Ext(path)]; got.Code != 200 || kind == "" || got.Header().Get("Content-Type") != kind || len(text) == 0 {
			t.Errorf("%s: %d %s", path, got.Code, got.Header())
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "createContextualFragment",
			"srcdoc", " onclick=", " style=", "http:", "https:"} {
			if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}

// TestEvents: a watcher gets all that is known, then what changes, but no renewals; and one
// that does not keep up is cut off.
func TestEvents(t *testing.T) {
	bubble(t, func(t *testing.T, s *Server, store *memlock.Store) {
		l := open(t, store)
		if _, err := l.Acquire(t.Context(), "old", pawl.TTL(3*time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		out, in := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer in.Close(); s.stream(ctx, in) }()
		var got []string
		done := make(chan error)
		go func() {
			dec := make([]byte, 64<<10)
			for {
				n, err := out.Read(dec)
				if got = append(got, string(dec[:n])); err != nil {
					done <- err
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		lease, err := l.Acquire(t.Context(), "new", pawl.Why("<script>"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		cancel()
		<-done
		text := strings.Join(got, "")
		for _, c := range []struct {
			part string
			n    int
		}{{`"all":true`, 1}, {`"name":"old","held":true`, 1}, {`"name":"new","held":true`, 1}, {`"gone":["new"]`, 1}, {`"state":"ended"`, 1}, {`\u003cscript`, 3}, {"<script", 0}, {`"renewed"`, 0}} {
			if n := strings.Count(text, c.part); n != c.n {
				t.Errorf("%q occurs %d times; want %d:\n%s", c.part, n, c.n, text)
			}
		}
		if s.watched() {
			t.Error("a watcher that has gone is still there")
		}

		slow := s.watch()
		time.Sleep(time.Minute)
		if s.watched() {
			t.Fatal("a watcher that reads nothing is kept")
		}
		n := 0
		for range slow {
			n++
		}
		if n != cap(slow) {
			t.Errorf("it gets %d messages; want %d", n, cap(slow))
		}
	})
}
