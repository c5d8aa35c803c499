// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// server answers each line with its name and the line. arrived has the lines.
func server(t *testing.T, name string) (addr string, arrived chan string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	arrived = make(chan string, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					arrived <- lines.Text()
					fmt.Fprintln(c, name, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String(), arrived
}

// said sends a line over a new connection and returns what comes back: an answer, "nothing" or "end".
func said(t *testing.T, c net.Conn, line string, within time.Duration) string {
	t.Helper()
	fmt.Fprintln(c, line)
	c.SetReadDeadline(time.Now().Add(within))
	answer, err := bufio.NewReader(c).ReadString('\n')
	switch {
	case err == nil:
		return answer[:len(answer)-1]
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "nothing"
	}
	return "end"
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const (
	linkPatience = 45 * time.Second
	aMoment      = 100 * time.Millisecond
)

// TestLink: a fault loses exactly what its comment says, and a connection that has lost something ends when the link is
// healthy again.
func TestLink(t *testing.T) {
	for _, f := range []struct {
		fault      Fault
		old, fresh string // what comes back over a connection that was there, and over a new one
		arrives    int    // how many of the lines
		lost       int    // how many connections have lost something
	}{
		{Healthy, "one old", "one fresh", 2, 0},
		{BlackHole, "nothing", "nothing", 0, 2},
		{RepliesLost, "nothing", "nothing", 3, 2},
		{Forgotten, "nothing", "one fresh", 1, 1},
		{Delayed, "one old", "one fresh", 2, 0},
		{Resets, "end", "end", 0, 0},
	} {
		t.Run(f.fault.String(), func(t *testing.T) {
			t.Parallel()
			addr, arrived := server(t, "one")
			l := NewLink(t, addr)
			send := func(c net.Conn, line, want string) {
				t.Helper()
				within := linkPatience
				if want == "nothing" {
					within = aMoment
				}
				if got := said(t, c, line, within); got != want {
					t.Errorf("%s: %q comes back; want %q", line, got, want)
				}
			}
			old := dial(t, l)
			send(old, "hello", "one hello")
			l.Set(f.fault)
			began := time.Now()
			send(old, "old", f.old)
			if d := time.Since(began); f.fault == Delayed && d < 2*linkDelay {
				t.Errorf("there and back took %v; want %v each way", d, linkDelay)
			}
			if f.fault == RepliesLost { // what the client sends after a lost reply arrives, too
				send(old, "later", "nothing")
			}
			fresh, err := net.Dial("tcp", l.Addr())
			if err != nil { // it was reset before it was made
				fresh = old
			}
			defer fresh.Close()
			send(fresh, "fresh", f.fresh)
			if !servers.Eventually(linkPatience, func() bool { return l.Lost() == f.lost }) {
				t.Fatalf("%d connections have lost something; want %d", l.Lost(), f.lost)
			}
			l.Set(Healthy)
			for _, c := range []net.Conn{old, fresh} {
				want := "one more"
				if lost := map[net.Conn]string{old: f.old, fresh: f.fresh}[c]; lost == "nothing" || lost == "end" {
					want = "end"
				}
				send(c, "more", want)
			}
			send(dial(t, l), "last", "one last")
			n := 0
			for line := ""; line != "last"; line = <-arrived {
				if line == "old" || line == "later" || line == "fresh" {
					n++
				}
			}
			if n != f.arrives {
				t.Errorf("%d lines arrive; want %d", n, f.arrives)
			}
		})
	}
}

// TestLinkKeepsWhatLostNothing: a fault that met nothing leaves no trace.
func TestLinkKeepsWhatLostNothing(t *testing.T) {
	addr, _ := server(t, "one")
	l := NewLink(t, addr)
	c := dial(t, l)
	said(t, c, "hello", linkPatience)
	l.Set(BlackHole)
	l.Set(Healthy)
	if got := said(t, c, "on", linkPatience); got != "one on" {
		t.Errorf("%q comes back; want an answer", got)
	}
}

// TestLinkSlow: everything takes longer, and nothing waits for what was sent before.
func TestLinkSlow(t *testing.T) {
	addr, arrived := server(t, "one")
	l := NewLink(t, addr)
	const late = 100 * time.Millisecond
	l.Slow(late)
	c := dial(t, l)
	began := time.Now()
	for range 400 {
		fmt.Fprintln(c, "slow")
	}
	for range 400 {
		<-arrived
	}
	if d := time.Since(began); d < late || d > 200*late {
		t.Errorf("400 lines took %v; want %v for all of them together", d, late)
	}
}

func TestLinkRedirectAndClose(t *testing.T) {
	one, _ := server(t, "one")
	two, _ := server(t, "two")
	l := NewLink(t, one)
	c := dial(t, l)
	said(t, c, "hello", linkPatience)
	l.Redirect(two)
	if old, fresh := said(t, c, "hello", linkPatience), said(t, dial(t, l), "hello", linkPatience); old != "end" || fresh != "two hello" {
		t.Errorf("after Redirect %q and %q come back", old, fresh)
	}
	l.Close()
	l.Close()
	if c, err := net.Dial("tcp", l.Addr()); err == nil {
		c.Close()
		t.Error("a closed link takes a connection")
	}
}

// TestLinkKeepsItsAddress: nobody else gets the address of a closed link before its test
// has ended: no other link, no server, and no connection.
func TestLinkKeepsItsAddress(t *testing.T) {
	l := NewLink(t, "127.0.0.1:1")
	l.Close()
	if held, err := net.ListenPacket("udp", l.Addr()); err == nil {
		held.Close()
		t.Errorf("Hold gives %s to others", l.Addr())
	}
	if addr, err := net.ResolveTCPAddr("tcp", l.Addr()); err != nil || addr.Port >= 32768 {
		t.Errorf("connections and other listeners may get %v, %v", addr, err)
	}
}
