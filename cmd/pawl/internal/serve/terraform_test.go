// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"bufio"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/memlock"
)

// backend is a Server of states at an address, with its own client of the store.
type backend struct {
	*testing.T
	s   *Server
	url string
}

func newBackend(t *testing.T, store *memlock.Store, dir string, opts Options) *backend {
	t.Helper()
	states, err := OpenStates(dir)
	if err != nil {
		t.Fatal(err)
	}
	opts.States = states
	s := New([]Store{{Name: "mem:", Open: func() (*pawl.Client, error) { return store.Open(nil) }}}, opts)
	ctx, cancel := context.WithCancel(context.Background())
	polled := make(chan struct{})
	answered := s.stores[0].answered
	go func() { defer close(polled); s.poll(ctx, 0) }()
	<-answered // it has a client
	l := httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(func() { l.Close(); cancel(); <-polled })
	return &backend{t, s, l.URL + "/terraform/"}
}

// ask sends a request as Terraform does. Headers are pairs.
func (b *backend) ask(method, path, body string, pairs ...string) (int, string) {
	b.Helper()
	r, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Set(pairs[i], pairs[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// want sends a request, of which the answer is to have a code and a text.
func (b *backend) want(code int, text, method, path, body string, pairs ...string) {
	b.Helper()
	if got, answer := b.ask(method, path, body, pairs...); got != code || !strings.Contains(answer, text) {
		b.Errorf("%s %s: %d %q; want %d %q", method, path, got, answer, code, text)
	}
}

const (
	alice = `{"ID":"1-a","Operation":"OperationTypeApply","Info":"","Who":"alice@laptop","Version":"1.10.6","Created":"2026-08-01T09:30:00Z","Path":""}`
	bob   = `{"ID":"2-b","Operation":"OperationTypePlan","Who":"bob@desk"}`
)

// TestTerraform: the protocol of the backend, from the first lock to the last.
func TestTerraform(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	dir := t.TempDir()
	b := newBackend(t, &store, dir, Options{})
	b.want(404, "", "GET", "web", "")
	b.want(409, "without its lock", "POST", "web", "{}")
	b.want(200, "", "LOCK", "web", alice)
	b.want(200, "", "LOCK", "web", alice) // the answer was lost
	b.want(423, alice, "LOCK", "web", bob)
	b.want(200, "", "LOCK", "db", bob)
	b.want(423, alice, "POST", "web", `{}`)
	b.want(423, alice, "POST", "web?ID=2-b", `{}`)
	b.want(423, alice, "DELETE", "web?ID=2-b", "")
	b.want(409, "no lock with this ID", "UNLOCK", "web", bob)
	info, err := open(t, &store).Inspect(t.Context(), "terraform/web")
	if err != nil || len(info.Holders) != 1 || info.Holders[0].Why != "OperationTypeApply by alice@laptop" {
		t.Errorf("in the store: %+v, %v", info, err)
	}
	sum := md5.Sum([]byte(`{"serial":1}`))
	b.want(200, "", "POST", "web?ID=1-a", `{"serial":1}`, "Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	b.want(400, "damaged", "POST", "web?ID=1-a", `{"serial":2}`, "Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	b.want(200, `{"serial":1}`, "GET", "web", "")
	if st, err := os.Stat(filepath.Join(dir, "web.tfstate")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the state's file: %v, %v", st, err)
	}
	b.want(200, "", "UNLOCK", "web", alice)
	b.want(200, "", "UNLOCK", "web", alice) // the answer was lost
	b.want(409, "the lock has ended", "POST", "web?ID=1-a", `{"serial":3}`)
	b.want(409, "without its lock", "POST", "web", `{"serial":3}`)
	b.want(200, "", "LOCK", "web", bob)
	b.want(423, bob, "POST", "web?ID=1-a", `{"serial":3}`)
	b.want(200, `{"serial":1}`, "GET", "web", "")
	b.want(200, "", "UNLOCK", "web", "") // terraform force-unlock
	b.want(200, "", "LOCK", "web", alice)
	b.want(200, "", "DELETE", "web?ID=1-a", "")
	b.want(404, "", "GET", "web", "")
}

// TestTerraformElsewhere: of two servers on one directory, the lock of one is that of the
// other, and what has lost its lease writes no more, whether it knows of it or not.
func TestTerraformElsewhere(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	dir := t.TempDir()
	first, second := newBackend(t, &store, dir, Options{}), newBackend(t, &store, dir, Options{})
	first.want(200, "", "LOCK", "web", alice)
	first.want(200, "", "POST", "web?ID=1-a", `{"serial":1}`)
	code, body := second.ask("LOCK", "web", bob)
	var held lockInfo
	if err := json.Unmarshal([]byte(body), &held); code != 423 || err != nil || held.ID == "" || held.Info != "OperationTypeApply by alice@laptop" {
		t.Errorf("%d %s (%v)", code, body, err)
	}
	second.want(409, "without its lock", "POST", "web?ID=1-a", `{"serial":2}`)
	lease := first.s.terraform.last("web").lease
	if err := open(t, &store).Break(t.Context(), "terraform/web", lease.ID(), "it hangs"); err != nil {
		t.Fatal(err)
	}
	<-lease.Done()
	first.want(409, "it hangs", "POST", "web?ID=1-a", `{"serial":3}`)
	first.want(409, "it hangs", "UNLOCK", "web", alice)
	second.want(200, "", "LOCK", "web", bob)

	// A server that was paused: another one has raised the token since.
	if err := second.s.terraform.states.guard.Do(t.Context(), "web", second.s.terraform.last("web").lease.Token()+1, nil); err != nil {
		t.Fatal(err)
	}
	second.want(409, "the lock has ended", "POST", "web?ID=2-b", `{"serial":4}`)
	second.want(200, `{"serial":1}`, "GET", "web", "")
}

// TestTerraformReadsAfterItsLock: a holder that was paused does not write between the next
// one's LOCK and its write.
func TestTerraformReadsAfterItsLock(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	lease, err := open(t, &store).Acquire(t.Context(), "terraform/web")
	if err != nil {
		t.Fatal(err)
	}
	old := lease.Token()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.want(200, "", "LOCK", "web", alice)
	err = b.s.terraform.states.guard.Do(t.Context(), "web", old, func() error { return errors.New("it has written") })
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write with the token before: %v", err)
	}
}

// TestTerraformRefuses: whoever has no token, whatever comes through a browser, names that
// are paths, and what is no lock.
func TestTerraformRefuses(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("terraform:"+password))
	}
	var store memlock.Store
	dir := t.TempDir()
	b := newBackend(t, &store, dir, Options{Token: token})
	for _, c := range []struct {
		method, path, body, auth, key, value string
		code                                 int
	}{
		{method: "GET", auth: "no", code: 401},
		{method: "GET", auth: basic("0123456789abcdee"), code: 401},
		{method: "LOCK", auth: basic(""), body: alice, code: 401},
		{method: "GET", auth: "Bearer " + token, code: 404},
		{method: "GET", code: 404},
		{method: "GET", path: "../api/locks", code: 404}, // it is no way around
		{method: "LOCK", body: alice, key: "Origin", value: "http://evil.example", code: 403},
		{method: "POST", key: "Sec-Fetch-Site", value: "cross-site", code: 403},
		{method: "PUT", code: 405},
		{method: "GET", path: "..%2f..%2fetc", code: 404},
		{method: "GET", path: "a/b", code: 404},
		{method: "GET", path: ".hidden", code: 404},
		{method: "GET", path: strings.Repeat("x", 101), code: 404},
		{method: "LOCK", body: "x", code: 400},
		{method: "LOCK", body: `{}`, code: 400},
		{method: "LOCK", body: `{"ID":"` + strings.Repeat("x", maxID+1) + `"}`, code: 400},
		{method: "LOCK", body: `{"ID":"` + strings.Repeat("x", maxBody) + `"}`, code: 400},
		{method: "UNLOCK", body: "x", code: 400},
		{method: "UNLOCK", body: "", code: 409},
	} {
		pairs := []string{"Authorization", cmp.Or(c.auth, basic(token))}
		if c.key != "" {
			pairs = append(pairs, c.key, c.value)
		}
		if code, answer := b.ask(c.method, cmp.Or(c.path, "web"), c.body, pairs...); code != c.code {
			t.Errorf("answered with %d %s; want %d: %+v", code, answer, c.code, c)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("there is %v (%v)", files, err)
	}
	if w := get(New(nil, Options{}), "/terraform/web"); w.Code != 404 {
		t.Errorf("without states: %d", w.Code)
	}
	if w := get(b.s, "/api/locks", "Authorization", basic(token)); w.Code != 401 {
		t.Errorf("a browser that keeps passwords reads the locks: %d", w.Code)
	}
}

// TestTerraformIsTooLarge: a state that is cut is not written.
func TestTerraformIsTooLarge(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	b.want(200, "", "LOCK", "web", alice)
	r := httptest.NewRequest("POST", "http://localhost/terraform/web?ID=1-a", io.LimitReader(zeros{}, maxState+1))
	w := httptest.NewRecorder()
	b.s.handle(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.want(404, "", "GET", "web", "")
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestTerraformEnds: with the server, its locks are given back.
func TestTerraformEnds(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) {
		newBackend(t, &store, dir, Options{}).want(200, "", "LOCK", "web", alice)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := open(t, &store).TryAcquire(ctx, "terraform/web"); err != nil {
		t.Error(err)
	}
}

// TestTerraformCutUnlock: an UNLOCK whose body does not come is no force-unlock.
func TestTerraformCutUnlock(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	b.want(200, "", "LOCK", "web", bob)
	host := strings.TrimSuffix(strings.TrimPrefix(b.url, "http://"), "/terraform/")
	for _, length := range []string{"Content-Length: 135", "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "UNLOCK /terraform/web HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", host, length)
		_ = c.(*net.TCPConn).CloseWrite()
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s, and none comes: %s", length, r.Status)
		}
		b.want(423, bob, "LOCK", "web", alice)
	}
}

// TestTerraformLateLock: a LOCK that comes once more, after its UNLOCK, leaves no lock that
// nobody knows of.
func TestTerraformLateLock(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	b.want(200, "", "LOCK", "web", alice)
	b.want(200, "", "UNLOCK", "web", alice)
	b.want(409, "has ended", "LOCK", "web", alice)
	b.want(200, "", "LOCK", "web", bob)
}

// TestTerraformCase: on some systems web.tfstate and Web.tfstate are one file, of two locks.
func TestTerraformCase(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	b.want(200, "", "LOCK", "web", alice)
	b.want(404, "small letters", "LOCK", "Web", bob)
}

// TestTerraformLongNames: of any language.
func TestTerraformLongNames(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	who := strings.Repeat("\U0001F600", 100)
	b.want(200, "", "LOCK", "web", fmt.Sprintf(`{"ID":"1","Who":%q,"Operation":%q}`, who, who))
}

// TestTerraformOvertaken: a LOCK that was slow does not take the place of the one that came next.
func TestTerraformOvertaken(t *testing.T) {
	t.Parallel()
	var store memlock.Store
	b := newBackend(t, &store, t.TempDir(), Options{})
	client := b.s.stores[0].source.Client()
	old, err := client.TryAcquire(t.Context(), "terraform/web")
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, &store).Break(t.Context(), "terraform/web", old.ID(), "it is slow"); err != nil {
		t.Fatal(err)
	}
	b.want(200, "", "LOCK", "web", bob)
	if b.s.terraform.keep("web", &stateLock{id: "1-a", lease: old}) {
		t.Error("the lock that has ended is kept")
	}
	b.want(200, "", "UNLOCK", "web", bob)
}
