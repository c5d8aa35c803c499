// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRequests: what comes over a connection, and what goes back.
func TestRequests(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, func(ctx context.Context) error { return New(nil, Options{}).Run(ctx, l) })
	say := func(text string) string {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, text)
		got, _ := io.ReadAll(c)
		return string(got)
	}
	const get = "GET /healthz HTTP/1.1\r\nConnection: close\r\n"
	for text, want := range map[string]string{
		get + "Host: localhost\r\n\r\n":                                               "HTTP/1.1 200 OK\r\n*\r\n\r\nok\n",
		"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n":                            "HTTP/1.0 200 OK\r\n*\r\n\r\nok\n",
		"HEAD /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n":                           "HTTP/1.0 200 OK\r\n*\r\nContent-Length: 3\r\n*\r\n\r\n",
		"GET /healthz HTTP/1.0\r\n\r\n":                                               "HTTP/1.0 403 Forbidden\r\n*",
		"GET http://evil.example/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n":         "HTTP/1.0 403 Forbidden\r\n*",
		"OPTIONS * HTTP/1.0\r\nHost: localhost\r\n\r\n":                               "HTTP/1.0 405 Method Not Allowed\r\n*",
		"POST /healthz HTTP/1.0\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello": "HTTP/1.0 405 Method Not Allowed\r\n*",
		"rubbish\r\n\r\n": "HTTP/1.1 400 Bad Request\r\n*",
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n": "HTTP/1.1 431 *",
		get + "Host: localhost\r\nHost: localhost\r\n\r\n":                      "HTTP/1.1 400 Bad Request\r\n*",
	} {
		got := say(text)
		for i, part := range strings.Split(want, "*") {
			_, after, found := strings.Cut(got, part)
			if got = after; !found || i == 0 && !strings.HasPrefix(say(text), part) {
				t.Errorf("%.60q: %q; want %q", text, say(text), want)
			}
		}
	}

	// A stream does not keep the server from its end.
	r, err := http.Get("http://" + l.Addr().String() + "/api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if line, err := bufio.NewReader(r.Body).ReadString('\n'); !strings.HasPrefix(line, `data: {"schema":1,"all":true`) {
		t.Errorf("%s (%v)", line, err)
	}
	stop()
	_, _ = io.Copy(io.Discard, r.Body) // it ends
}

// TestSlowRequest: whoever says nothing, or reads nothing, does not keep a connection.
func TestSlowRequest(t *testing.T) {
	for _, slow := range []struct {
		name, text string
		most       time.Duration
	}{
		{"nothing", "", patient},
		{"half", "GET / HTTP/1.1\r\n", patient},
		{"no reading", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", slowest},
		{"no reading of a stream", "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n", patient},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := make(pipes)
			running(t, func(ctx context.Context) error { return New(nil, Options{}).Run(ctx, l) })
			began, theirs := time.Now(), l.dial("10.0.0.1")
			_, err := io.WriteString(theirs, slow.text)
			if !strings.HasSuffix(slow.text, "\r\n\r\n") {
				_, _ = io.Copy(io.Discard, theirs)
				err = io.EOF
			}
			for err == nil {
				_, err = io.WriteString(theirs, "x")
			}
			if took := time.Since(began); took > slow.most+time.Second {
				t.Errorf("%s: it took %v; want %v at most", slow.name, took, slow.most)
			}
		})
	}
}

// TestSocket: it is for its owner alone. One that nobody listens at is replaced, no other
// and nothing else.
func TestSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket has the rights %v (%v)", st.Mode(), err)
	}
	if l, err := Listen("unix", path); err == nil {
		l.Close()
		t.Error("a socket that somebody listens at was replaced")
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := Listen("unix", path)
	if err != nil {
		t.Fatalf("what is left of another: %v", err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen("unix", path); err == nil {
		l.Close()
		t.Error("a file was replaced")
	}
	if b, err := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file has %q (%v)", b, err)
	}
}
