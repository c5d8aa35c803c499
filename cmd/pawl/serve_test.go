// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestServe: the locks of several stores, of which one is away, at a socket and behind a
// token.
func TestServe(t *testing.T) {
	w := newWorld(t)
	holder := w.sh(`exec $P run --why "release 7" deploy -- sh -c '` + holdUntil + `'`)
	w.appears("in")
	const token = "0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(w.dir+"/token", []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := "unix:" + w.dir + "/socket"
	p := w.pawl("serve", "--listen", socket, "--token-file", w.dir+"/token",
		"-s", "file://"+w.dir+"/locks", "-s", "redis://me:s3cret@127.0.0.1:1?connect_timeout=1s")
	w.until("it listens", func() bool { return p.stdout() == "listening at "+socket+"\n" })
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", w.dir+"/socket")
	}}}
	get := func(token string) (int, []byte) {
		r, err := http.NewRequest("GET", "http://localhost/api/locks", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body
	}
	if code, body := get("wrong"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", code, body)
	}
	code, body := get(token)
	first, away, _ := strings.Cut(string(body), `},{"store":"redis://`)
	if code != http.StatusOK || !strings.Contains(first, `"name":"deploy","held":true`) || !strings.Contains(first, `"why":"release 7"`) ||
		!strings.Contains(away, `"error":"`) || strings.Contains(string(body), "s3cret") {
		t.Errorf("%d %s", code, body)
	}
	p.signal(syscall.SIGTERM)
	p.end(0)
	if w.exists("socket") {
		t.Error("the socket is left")
	}
	w.free(holder)
}

// TestServeTLS: with a certificate nothing is told without TLS, and a stream is told at once
// over HTTP/2 as well.
func TestServeTLS(t *testing.T) {
	w := newWorld(t)
	cert, key, _ := servers.Certificate(t)
	p := w.pawl("serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "-s", "file://"+w.dir+"/locks")
	w.until("it listens", func() bool { return strings.HasSuffix(p.stdout(), "/\n") })
	url, found := strings.CutPrefix(strings.TrimSpace(p.stdout()), "listening at https://")
	if !found {
		t.Fatalf("%q; want https", p.stdout())
	}
	if r, err := http.Get("http://" + url + "api/locks"); err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v; want %d", r, err, http.StatusBadRequest)
	}
	ours, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ours)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	r, err := client.Get("https://" + url + "api/events")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if line, err := bufio.NewReader(r.Body).ReadString('\n'); r.ProtoMajor != 2 || !strings.HasPrefix(line, `data: {"schema":1,"all":true`) {
		t.Errorf("%s: %s (%v)", r.Proto, line, err)
	}
	p.signal(syscall.SIGTERM)
	p.end(0)
}

// TestServeRefuses: what would be a mistake says what to type instead.
func TestServeRefuses(t *testing.T) {
	w := newWorld(t)
	write := func(name, text string, mode os.FileMode) string {
		if err := os.WriteFile(w.dir+"/"+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return w.dir + "/" + name
	}
	const long = "0123456789abcdef"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--listen", ":999999"}, exit.Misuse, "add --token-file"},
		{[]string{"--listen", "0.0.0.0:999999"}, exit.Misuse, "add --token-file"},
		{[]string{"--listen", "pawl.example:999999"}, exit.Misuse, "add --token-file"},
		{[]string{"--listen", "127.0.0.1:999999", "--allow-break"}, exit.Misuse, "add --token-file"},
		{[]string{"--listen", "7295"}, exit.Misuse, "use HOST:PORT"},
		{[]string{"--listen", "unix:"}, exit.Misuse, "use HOST:PORT"},
		{[]string{"--listen", "127.0.0.1:999999"}, exit.System, "name another address"},
		{[]string{"--token-file", w.dir + "/none"}, exit.Config, "openssl rand"},
		{[]string{"--token-file", write("open", long, 0o644)}, exit.Config, "chmod 600"},
		{[]string{"--token-file", write("short", long[1:], 0o600)}, exit.Config, "16 letters and digits"},
		{[]string{"--token-file", write("two", long+" "+long, 0o600)}, exit.Config, "16 letters and digits"},
		{[]string{"-s", "file://" + w.dir + "/locks", "-s", "file://" + w.dir + "/locks"}, exit.Misuse, "twice"},
		{[]string{"-s", "file://" + w.dir + "/missing"}, exit.Config, "no lock was ever taken there"},
		{[]string{"-s", "nonsense://x"}, exit.Config, "unknown kind of store"},
		{[]string{"-s", "reids://x"}, exit.Config, "did you mean redis://?"},
		{[]string{"-s", "valkey://x"}, exit.Config, "did you mean redis://?"},
		{[]string{"-s", "pgsql://x"}, exit.Config, "write it as in postgres://USER@HOST:PORT/DATABASE"},
		{[]string{"-s", ""}, exit.Misuse, "is a variable in your script unset?"},
		{[]string{"--tls-cert", w.dir + "/none"}, exit.Misuse, "name both files"},
		{[]string{"--tls-key", w.dir + "/none"}, exit.Misuse, "name both files"},
		{[]string{"--tls-cert", write("cert", "", 0o600), "--tls-key", w.dir + "/cert"}, exit.Config, "in PEM"},
		{[]string{"deploy"}, exit.Misuse, "pawl serve --help"},
	} {
		p := w.pawl(append([]string{"serve"}, c.args...)...)
		p.end(c.code)
		if got := p.stderr(); !strings.Contains(got, c.says) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %q; want one line with %q", c.args, got, c.says)
		}
	}
}
