// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"
)

// linked returns a server, a healthy link to it and a connection that works.
func linked(t *testing.T) (*echo, *Link, *caller) {
	t.Parallel()
	e := startEcho(t, "one")
	l := NewLink(t, e.addr)
	c := dial(t, l)
	c.say("hello")
	c.hears("one hello")
	e.arrives("hello")
	return e, l, c
}

// works checks that a new connection works, and that nothing else has reached the
// server.
func works(t *testing.T, e *echo, l *Link) {
	t.Helper()
	c := dial(t, l)
	c.say("again")
	c.hears("one again")
	e.arrives("again")
}

// TestLinkLosses: a fault loses exactly what its comment says, and a connection that
// has lost something ends when the link is healthy again.
func TestLinkLosses(t *testing.T) {
	for _, c := range []struct {
		fault         Fault
		arrives, news bool // what the client sends, and what is sent on a new connection
	}{
		{BlackHole, false, false}, {RequestsLost, false, false}, {RepliesLost, true, true}, {Forgotten, false, true},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			e, l, old := linked(t)
			l.Set(c.fault)
			old.say("lost")
			if c.arrives {
				e.arrives("lost")
			}
			old.silent()
			if c.fault == Forgotten {
				works(t, e, l)
			} else {
				fresh := dial(t, l)
				fresh.say("fresh")
				if c.news {
					e.arrives("fresh")
				}
				fresh.silent()
				l.Set(Healthy)
				fresh.ended(true)
			}
			l.Set(Healthy)
			old.ended(true)
			works(t, e, l)
		})
	}
}

// TestLinkHalfOpen: while requests are lost, messages from the server arrive.
func TestLinkHalfOpen(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l := NewLink(t, server.Addr().String())
	c := dial(t, l)
	far, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	l.Set(RequestsLost)
	c.say("lost")
	fmt.Fprintln(far, "news")
	c.hears("news")
}

// TestLinkKeepsWhatLostNothing: a fault that met nothing leaves no trace.
func TestLinkKeepsWhatLostNothing(t *testing.T) {
	e, l, c := linked(t)
	l.Set(BlackHole)
	l.Set(Healthy)
	c.say("on")
	c.hears("one on")
	e.arrives("on")
}

// TestLinkSlow: everything takes longer, and nothing waits for what was sent before.
func TestLinkSlow(t *testing.T) {
	e, l, _ := linked(t)
	const late = 100 * time.Millisecond
	l.Slow(late)
	c := dial(t, l)
	began := time.Now()
	for range 50 {
		c.say("slow")
	}
	for range 50 {
		e.arrives("slow")
	}
	if d := time.Since(began); d < late || d > 50*late {
		t.Errorf("50 lines took %v; want %v for all of them together", d, late)
	}
}

func TestLinkDelayed(t *testing.T) {
	e, l, c := linked(t)
	l.Set(Delayed)
	began := time.Now()
	c.say("slow")
	c.hears("one slow")
	if d := time.Since(began); d < 2*linkDelay {
		t.Errorf("there and back took %v; want %v each way", d, linkDelay)
	}
	e.arrives("slow")
}

func TestLinkResets(t *testing.T) {
	e, l, c := linked(t)
	l.Set(Resets)
	c.ended(false)
	if fresh, err := net.Dial("tcp", l.Addr()); err == nil {
		(&caller{t, fresh, bufio.NewReader(fresh)}).ended(false)
		fresh.Close()
	}
	l.Set(Healthy)
	works(t, e, l)
}

// TestLinkHangsUp: the server has received the request when the connection ends.
func TestLinkHangsUp(t *testing.T) {
	e, l, c := linked(t)
	l.Set(HangsUp)
	c.say("lost")
	c.ended(true)
	e.arrives("lost")
	l.Set(Healthy)
	works(t, e, l)
}

// TestLinkSetAfter: the text arrives, and nothing behind it, once.
func TestLinkSetAfter(t *testing.T) {
	e, l, c := linked(t)
	l.SetAfter("one grant", RepliesLost)
	for _, line := range []string{"other", "grant"} {
		if f := l.Fault(); f != Healthy {
			t.Errorf("the link is %v before the text", f)
		}
		c.say(line)
		c.hears("one " + line)
		e.arrives(line)
	}
	c.say("late")
	e.arrives("late")
	c.silent()
	if f := l.Fault(); f != RepliesLost {
		t.Errorf("the link is %v behind the text", f)
	}
	l.Set(Healthy)
	works(t, e, l)
	if f := l.Fault(); f != Healthy {
		t.Errorf("the link is %v again; want it once", f)
	}
}

func TestLinkRedirectAndClose(t *testing.T) {
	_, l, c := linked(t)
	l.Redirect(startEcho(t, "two").addr)
	c.ended(true)
	c = dial(t, l)
	c.say("hello")
	c.hears("two hello")
	l.Close()
	c.ended(true)
	l.Close()
	if c, err := net.Dial("tcp", l.Addr()); err == nil {
		c.Close()
		t.Error("a closed link takes a connection")
	}
}

// TestLinkKeepsItsAddress: nobody else gets the address of a closed link before its test
// has ended: no other link, no server, and no connection.
func TestLinkKeepsItsAddress(t *testing.T) {
	t.Parallel()
	l := NewLink(t, startEcho(t, "one").addr)
	l.Close()
	if held, err := net.ListenPacket("udp", l.Addr()); err == nil {
		held.Close()
		t.Errorf("Hold gives %s to others", l.Addr())
	}
	if addr, err := net.ResolveTCPAddr("tcp", l.Addr()); err != nil || addr.Port >= 32768 {
		t.Errorf("connections and other listeners may get %v, %v", addr, err)
	}
}
