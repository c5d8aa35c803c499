// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdlock

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
)

// startJWT starts a server whose tokens expire after two seconds, with a user me:secret.
func startJWT(t *testing.T) *member {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	must(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"private": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}, "public": {Type: "PUBLIC KEY", Bytes: public},
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	m := startServer(t, "--bcrypt-cost", "4", "--auth-token",
		"jwt,sign-method=RS256,ttl=2s,pub-key="+filepath.Join(dir, "public")+",priv-key="+filepath.Join(dir, "private"))
	m.withUsers()
	return m
}

// TestTokensExpire: a client outlives the token that it got for its password. Leases are
// kept, new ones are granted, and waiters are told.
func TestTokensExpire(t *testing.T) {
	t.Parallel()
	m := startJWT(t)
	url := "etcd://me:secret@" + m.Addr
	a, b := openClient(t, url, 5*time.Second), openStore(t, url)
	held, err := a.Acquire(t.Context(), "deploy")
	must(t, err)
	w := wait(t, b, request("deploy"))
	time.Sleep(6 * time.Second)
	if err := held.Err(); err != nil {
		t.Fatalf("the lease: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	other, err := a.TryAcquire(ctx, "other")
	if err != nil {
		t.Fatalf("TryAcquire = %v", err)
	}
	if err := other.Release(ctx); err != nil {
		t.Errorf("Release = %v", err)
	}
	if err := held.Release(ctx); err != nil {
		t.Errorf("Release = %v", err)
	}
	release(t, w.granted(soon)) // it is told: it would look after 20 s
}

// TestWatchAfterLogin: etcd 3.4 refuses new watches on a stream that was opened with a
// token that has expired by now.
func TestWatchAfterLogin(t *testing.T) {
	t.Parallel()
	s := openStore(t, "etcd://me:secret@"+startJWT(t).Addr)
	created := func(key string) clientv3.WatchResponse {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		return <-s.client.Watch(s.watching(ctx), key, clientv3.WithCreatedNotify()) // closed when ctx ends
	}
	if first := created("pawl/a"); !first.Created || first.Err() != nil {
		t.Fatalf("the first watch: %+v", first)
	}
	time.Sleep(3 * time.Second)
	if _, err := s.queue(t.Context(), "deploy"); err != nil {
		t.Fatalf("a request after the token has expired: %v", err)
	}
	if second := created("pawl/b"); !second.Created || second.Err() != nil {
		t.Errorf("a watch after the second login: %+v, %v", second, second.Err())
	}
}

// TestPasswordChanges: when the token has expired and the password is wrong by then, the
// error says that.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	m := startJWT(t)
	s := openStore(t, "etcd://me:secret@"+m.Addr)
	if _, err := openStore(t, "etcd://root:top@"+m.Addr).client.UserChangePassword(t.Context(), "me", "new"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	_, err := s.TryAcquire(t.Context(), request("deploy"))
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "new login fails") || !strings.Contains(err.Error(), "refuses this user or password") {
		t.Errorf("TryAcquire = %v; want ErrUnavailable that tells of the login", err)
	}
}
