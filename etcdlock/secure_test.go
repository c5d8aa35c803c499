// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// startSecure starts a server that has one address without TLS and one with.
func startSecure(t *testing.T, args ...string) (plain, secure string) {
	t.Helper()
	m := startServer(t, args...)
	secure = drivertest.FreeAddr(t)
	m.Kill()
	m.Args = append(m.Args, "--listen-client-urls", "http://"+m.Addr+",https://"+secure)
	m.restart()
	return m.Addr, secure
}

// TestTLS: the server wants a certificate of its clients, and they one of it.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, _ := servers.Certificate(t)
	plain, secure := startSecure(t, "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert)
	c := openClient(t, "etcds://"+secure+"/p?ca_file="+cert+"&cert_file="+cert+"&key_file="+key, time.Minute)
	l, err := c.Acquire(t.Context(), "deploy")
	must(t, err)
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for url, want := range map[string]string{
		"etcds://" + secure:                              "?ca_file=",
		"etcds://" + plain + "?ca_file=" + cert:          "use etcd:// instead",
		"etcds://" + secure + "?ca_file=" + cert:         secure, // the server wants a certificate, and hangs up
		"etcd://" + secure + "?connect_timeout=1s":       secure,
		"etcds://" + secure + "?ca_file=/no/such/folder": "no such file",
	} {
		if _, err := NewStore(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", url, err, want)
		}
	}
}

// TestServerName: the certificate must have the name in the URL, else the name in the options, else the host.
func TestServerName(t *testing.T) {
	t.Parallel()
	cert, key, _ := servers.Certificate(t, "etcd.internal")
	_, secure := startSecure(t, "--cert-file", cert, "--key-file", key)
	for _, c := range []struct {
		url, options string
		right        bool
	}{
		{"etcd.internal", "", true},
		{"", "etcd.internal", true},
		{"etcd.internal", "other.internal", true},
		{"", "", false},
		{"other.internal", "", false},
		{"", "other.internal", false},
		{"other.internal", "etcd.internal", false},
		{"10.9.9.9", "", false},
	} {
		url := "etcds://" + secure + "?connect_timeout=20s&ca_file=" + cert
		if c.url != "" {
			url += "&server_name=" + c.url
		}
		locks, err := NewStore(t.Context(), url, &Options{TLS: &tls.Config{ServerName: c.options}})
		if err == nil {
			locks.Close()
		}
		if right := err == nil; right != c.right {
			t.Errorf("NewStore with server_name=%q and TLS.ServerName %q = %v; want success: %v", c.url, c.options, err, c.right)
		} else if err != nil && (!strings.Contains(err.Error(), "?server_name=") || !errors.Is(err, pawl.ErrUnavailable)) {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
}

// TestUsers: user and password, and the least rights.
func TestUsers(t *testing.T) {
	t.Parallel()
	m := startServer(t)
	m.withUsers()
	a, b := openStore(t, "etcd://me:secret@"+m.Addr), openStore(t, "etcd://me:secret@"+m.Addr)
	held := take(t, a, request("deploy"))
	w := wait(t, b, request("deploy"))
	if _, err := held.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew = %v", err)
	}
	release(t, held)
	next := w.granted(patience)
	info, err := a.Inspect(t.Context(), "deploy")
	if err != nil || len(info.Holders) != 1 {
		t.Errorf("Inspect = %v, %v", info, err)
	}
	if err := a.Break(t.Context(), "deploy", next.ID(), &driver.Holder{}, "test"); err != nil {
		t.Errorf("Break = %v", err)
	}
	for url, want := range map[string]string{
		"etcd://" + m.Addr:                        "wants a user",
		"etcd://me:secret2@" + m.Addr:             "refuses this user or password",
		"etcd://stranger:secret@" + m.Addr:        "may not read and write",
		"etcd://me:secret@" + m.Addr + "/private": "may not read and write",
	} {
		_, err := Open(t.Context(), url, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want an error with %q and without the password", url, err, want)
		}
	}
}

// TestDeadCluster: the error names the members and says what to do, and comes at
// once when nobody listens.
func TestDeadCluster(t *testing.T) {
	a, b := drivertest.FreeAddr(t), drivertest.FreeAddr(t)
	began := time.Now()
	_, err := NewStore(t.Context(), "etcd://me:secret@"+a+","+b, nil)
	if err == nil {
		t.Fatal("Open = nil; want an error")
	}
	for _, want := range []string{a, b, "connection refused", "is the server running"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the password: %v", err)
	}
	if d := time.Since(began); d > defaultConnect+patience {
		t.Errorf("it took %v", d)
	}
}
