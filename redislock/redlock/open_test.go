// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func TestURL(t *testing.T) {
	opts, places, err := parseURL("redlock://me:s%2Fcret@h1,h2:7000,[::1]:7001/3?prefix=p:&max_ttl=1m&node_timeout=80ms&quorum=3&connect_timeout=2s", &Options{})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, p := range places {
		shown = append(shown, p.Shown)
	}
	if got := strings.Join(shown, " "); got != "redis://h1/3 redis://h2:7000/3 redis://[::1]:7001/3" {
		t.Errorf("places %s", got)
	}
	if opts.Prefix != "p:" || opts.MaxTTL != time.Minute || opts.NodeTimeout != 80*time.Millisecond || opts.Quorum != 3 || opts.ConnectTimeout != 2*time.Second {
		t.Errorf("options %+v", opts)
	}
}

func TestURLRefusals(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h1,h2,h3":                         "redlock://host1:6379,host2:6379,host3:6379",
		"redlock://h1,,h3":                         "a host is empty",
		"redlock://":                               "a host is empty",
		"redlock://h1,h2,h3?node_timeout=fast":     "node_timeout",
		"redlock://h1,h2,h3?quorum=most":           `quorum: "most" is not a whole number`,
		"redlock://h1,h2,h3?asume_new=true":        "asume_new: there is no such parameter: did you mean assume_new?",
		"redlock://h1,h2,h3?assume_new=yes":        `assume_new: "yes" is not a truth value: use true or false`,
		"redlock://h1,h2,h3?allow_single=yes":      `allow_single: "yes" is not a truth value`,
		"redlock://h1,h2,h3?ttl=5s":                "set Options.TTL in Go, or --ttl",
		"redlock://h1,h2,h3?wait=1":                "wait: there is no such parameter",
		"redlock://h1,h2,h3?master_set=m":          "not found through sentinels",
		"redlock://h1,h2,h3?wait_replicas=1":       "does not wait for replicas",
		"redlock://h1,h2,h3?mode=efficiency":       "redlock has no modes",
		"redlock://h1,h2,h3/x":                     "not the number of a database",
		"redlock://h1,h2":                          "an odd number",
		"redlock://h1":                             "one node is no quorum",
		"redlock://h1,h2,h1":                       "named twice",
		"redlock://h1,h2,h3?prefix={x}":            "prefix",
		"redlock://me:secret/word@h1,h2,h3":        "special characters",
		"redlock://me:secret?x@h1,h2,h3":           "",
		"redlock://me:some@secret/x@h1,h2,h3":      "special characters",
		"redlock://me:some@secret?x@h1,h2,h3":      "special characters",
		"redlock://me:secret@h1,h2,h3?tls=perhaps": `tls: "perhaps" is not a truth value: use true or false`,
	} {
		// Nothing is sent to a server before.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Open(ctx, url, &Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v; want %q in it, and no password", url, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	f[1].kill()
	if byURL, err := pawl.Open(t.Context(), f.url(), &opts.Options.Options); err != nil {
		t.Errorf("pawl.Open = %v", err)
	} else {
		byURL.Close()
	}
	locks, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatalf("Open with one of three down = %v", err)
	}
	defer locks.Close()
	lease, err := locks.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if lease.Token() == 0 {
		t.Error("no token")
	}
	release(t, lease)
	f[2].kill()
	if _, err := connect(t.Context(), f.url(), opts); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("connect with two of three down = %v; want ErrUnavailable", err)
	}
	early, err := Open(t.Context(), f.url(), opts)
	if err != nil {
		t.Fatalf("Open with two of three down = %v", err)
	}
	defer early.Close()
	if err := early.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("Ping with two of three down = %v; want ErrUnavailable", err)
	}
	_, err = locks.TryAcquire(t.Context(), name)
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("TryAcquire with two of three down = %v", err)
	}
}

// leastRights are those in docs/redlock-nodes.md.
var leastRights = strings.Fields("+info +script|load +script|exists +evalsha +subscribe +time +get +exists +set +del +pttl +pexpire +mget +zcard +zadd +zrange +zrank +zrem +zremrangebyscore +publish +pubsub|numsub +scan +setrange +object|encoding")

func TestLeastRights(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)
	grant := func(rights []string, more ...string) {
		t.Helper()
		args := append([]string{"acl", "setuser", "app", "reset", "on", ">s3cret", "~pawl:redlock:*", "&pawl:redlock:client:*"}, rights...)
		for _, s := range f {
			if out := s.do(append(args, more...)...); out != "OK" {
				t.Fatal(out)
			}
		}
	}
	doc, err := os.ReadFile("../../docs/redlock-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(doc), "## Keys and rights")
	for _, right := range leastRights {
		if !strings.Contains(chapter, right) {
			t.Errorf("docs/redlock-nodes.md does not list the right %s", right)
		}
	}
	url := strings.Replace(f.url(), "://", "://app:s3cret@", 1)
	grant(leastRights)
	d := openDriver(t, url, opts)
	g := get(t, d, long())
	renew(t, g, time.Minute)
	release(t, g)
	if _, err := d.List(t.Context(), ""); err != nil {
		t.Errorf("List = %v", err)
	}
	for i, right := range leastRights {
		if right == "+scan" || right == "+script|exists" {
			continue // not asked for at first, or not needed
		}
		grant(append(append([]string{}, leastRights[:i]...), leastRights[i+1:]...))
		_, err := connect(t.Context(), url, opts)
		if err == nil || !strings.Contains(err.Error(), right) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open without the right %s = %v; want an error that names it", right, err)
		}
	}
	grant(leastRights, "-script|exists") // as before there was this right
	if d, err := Open(t.Context(), url, opts); err != nil {
		t.Errorf("Open without the right +script|exists = %v", err)
	} else {
		d.Close()
	}
	grant(leastRights, "resetkeys", "~other:*")
	if _, err := connect(t.Context(), url, opts); err == nil || !strings.Contains(err.Error(), "~pawl:redlock:* &pawl:redlock:client:*") {
		t.Errorf("Open without the keys = %v; want an error that names them", err)
	}
}

// fullAddr returns an address to which no connection is made, and none refused: its queue is
// full.
func fullAddr(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
	for range 10 {
		c, err := net.DialTimeout("tcp", addr, 2*time.Second)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue does not get full")
	return ""
}

// TestOpenBesideADeafNode: Open does not wait for one node of three when the two others
// have answered, nor does Close.
func TestOpenBesideADeafNode(t *testing.T) {
	t.Parallel()
	opts := patient()
	f := startFleet(t, 3, opts)[:2]
	opts.ConnectTimeout = 2 * time.Minute
	addr, ended := fullAddr(t), make(chan error, 1)
	go func() {
		d, err := connect(t.Context(), f.url()+","+addr, opts)
		if err == nil {
			err = d.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("to open and to close: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it takes a minute, half of what a connection may take")
	}
}

// TestOptionsAreCopied: a client that connects later does so with the options that Open was called with.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	opts := &Options{}
	locks, err := Open(t.Context(), "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	opts.Prefix = "a{b\n" // which is refused
	if err := locks.Ping(t.Context()); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("Ping = %v; want ErrUnavailable, as the options were right when Open was called", err)
	}
}
