// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
	"github.com/pawl-go/pawl/driver/drivertest/servers"
	"github.com/pawl-go/pawl/internal/participant"
)

// TestUsers: with a user the nodes belong to that user, and nobody else gets in.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	open := func(user string) (*pawl.Client, error) {
		return Open(t.Context(), "zk://"+user+s.Addr+"/users", options(time.Minute))
	}
	alice, err := open("alice:s3cret@")
	must(t, err)
	defer alice.Close()
	l, err := alice.Acquire(t.Context(), "deploy")
	must(t, err)
	for _, user := range []string{"alice:s3cret2@", "bob:s3cret@", ""} {
		other, err := open(user)
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		for name, f := range map[string]func() error{
			"TryAcquire": func() error { _, err := other.TryAcquire(t.Context(), "deploy"); return err },
			"Acquire":    func() error { _, err := other.Acquire(t.Context(), "deploy"); return err },
			"new name":   func() error { _, err := other.Acquire(t.Context(), "mine"); return err },
			"Inspect":    func() error { _, err := other.Inspect(t.Context(), "deploy"); return err },
			"Break":      func() error { return other.Break(t.Context(), "deploy", l.ID(), "because") },
		} {
			err := f()
			if !errors.Is(err, pawl.ErrDenied) || !strings.Contains(err.Error(), "belong to another user") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s by %q = %v; want it refused", name, user, err)
			}
		}
		other.Close()
	}
	same, err := open("alice:s3cret@")
	must(t, err)
	defer same.Close()
	if _, err := same.TryAcquire(t.Context(), "deploy"); !errors.Is(err, pawl.ErrHeld) {
		t.Errorf("TryAcquire by the same user = %v; want ErrHeld", err)
	}
	if err := same.Break(t.Context(), "deploy", l.ID(), "because"); err != nil {
		t.Errorf("Break by the same user = %v", err)
	}
}

// TestWaiterLosesItsRights: a waiter hears soon that the nodes of the name belong to another user now.
func TestWaiterLosesItsRights(t *testing.T) {
	t.Parallel()
	s, name := sharedServer(t), rand.Text() // the next run has no rights to the node of this name
	d := openURL(t, "zk://alice:s3cret@"+s.Addr+"/rights", time.Minute)
	take(t, d, request(name, time.Minute))
	w := wait(t, d, request(name, time.Minute))
	if _, err := firstSession(d).conn.SetACL(d.wire.dir(name), zk.DigestACL(zk.PermAll, "bob", "s3cret"), -1); err != nil {
		t.Fatal(err)
	}
	drivertest.Receive(t, w.Done, "the waiter does not hear that it has lost its rights")
	if !errors.Is(w.Err, driver.ErrDenied) {
		t.Errorf("Acquire = %v; want ErrDenied", w.Err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, _, both := servers.Certificate(t)
	secure := drivertest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(secure)
	s := startServer(t, "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort="+port, "ssl.keyStore.location="+both, "ssl.trustStore.location="+cert, "ssl.clientAuth=none")
	var locks *pawl.Client
	var err error
	if !eventually(patience, func() bool { // this port comes after the other
		if locks, err = Open(t.Context(), "zks://"+secure+"?ca_file="+cert, options(20*time.Second)); err != nil {
			return false
		}
		if err = locks.Ping(t.Context()); err != nil {
			locks.Close()
		}
		return err == nil
	}) {
		t.Fatalf("Open = %v\n%s", err, s.Output())
	}
	defer locks.Close()
	l, err := locks.Acquire(t.Context(), "deploy")
	must(t, err)
	if err := l.Extend(t.Context(), 20*time.Second); err != nil {
		t.Errorf("Extend = %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	for url, want := range map[string]string{
		"zks://" + secure: "ca_file",
		"zks://" + secure + "?server_name=elsewhere&ca_file=" + cert: "elsewhere",
		"zk://" + secure:  "zks://",
		"zks://" + s.Addr: "without (zk://)",
	} {
		o := options(5 * time.Second)
		o.ConnectTimeout = patience
		_, err := NewStore(t.Context(), url, o)
		if !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v; want %q", url, err, want)
		}
	}
}

// TestUnreachable: what cannot be used is told at once, with what to do.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	must(t, err)
	defer silent.Close()
	for url, want := range map[string]string{
		"zk://" + drivertest.FreeAddr(t):                                "is the server running",
		"zk://" + drivertest.FreeAddr(t) + "," + drivertest.FreeAddr(t): "is the server running",
		"zk://" + silent.Addr().String() + "?connect_timeout=1s":        "has not begun a session",
		"zk://nosuchhost.invalid":                                       "host",
	} {
		slow, began := drivertest.Late(t), time.Now()
		_, err := NewStore(t.Context(), url, options(5*time.Second))
		if !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v; want %q", url, err, want)
		}
		if d := time.Since(began); d > 15*time.Second+slow() {
			t.Errorf("Open(%s) took %v", url, d)
		}
	}
}

// TestForeignNodes: a node under a name of ours that is not ephemeral keeps that lock from being granted for ever. Who asks
// for it is told at once which node it is, and what to type; doctor tells as well.
func TestForeignNodes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	d := openURL(t, s.url(), 20*time.Second)
	const name = "it's"
	g := take(t, d, request(name, 20*time.Second)) // so that the parent is not swept away
	if found := d.wire.endlessNodes(t.Context()); len(found) > 0 {
		t.Errorf("found %+v; want nothing", found)
	}
	at := d.wire.dir(name) + "/lock-0000000000"
	conn := firstSession(d).conn
	if _, err := conn.Create(at, nil, zk.FlagPersistent, d.wire.acl); err != nil {
		t.Fatal(err)
	}
	release(t, g)
	for range 2 { // the second time there is a watch
		for what, acquire := range map[string]func(context.Context, *driver.Request) (*participant.Lease, error){"TryAcquire": d.TryAcquire, "Acquire": d.Acquire} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err := acquire(ctx, request(name, 20*time.Second))
			cancel()
			if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), s.Addr+` delete '`+d.wire.root+`/it'\''s/lock-`) {
				t.Errorf("%s = %v; want ErrUnavailable with the command to paste", what, err)
			}
		}
	}
	if found := d.wire.endlessNodes(t.Context()); len(found) != 1 || found[0].Level != driver.Problem || !strings.Contains(found[0].Text, at) {
		t.Errorf("found %+v; want a problem", found)
	}
	must(t, conn.Delete(at, -1))
	release(t, take(t, d, request(name, 20*time.Second)))
}
