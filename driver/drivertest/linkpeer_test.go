// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

const linkPatience = 10 * time.Second

// echo is a server that answers each line with its name and the line.
type echo struct {
	t    *testing.T
	addr string
	got  chan string // what has arrived
}

func startEcho(t *testing.T, name string) *echo {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{t, listener.Addr().String(), make(chan string, 10)}
	var work sync.WaitGroup
	t.Cleanup(func() { listener.Close(); work.Wait() })
	work.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					e.got <- lines.Text()
					fmt.Fprintf(c, "%s %s\n", name, lines.Text())
				}
			})
		}
	})
	return e
}

// arrives checks that the server gets a line next.
func (e *echo) arrives(line string) {
	e.t.Helper()
	select {
	case got := <-e.got:
		if got != line {
			e.t.Errorf("the server got %q; want %q", got, line)
		}
	case <-time.After(linkPatience):
		e.t.Errorf("the server does not get %q", line)
	}
}

// caller is a client's connection.
type caller struct {
	*testing.T
	net.Conn
	replies *bufio.Reader
}

func dial(t *testing.T, l *Link) *caller {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

func (c *caller) say(line string) {
	c.Helper()
	if _, err := fmt.Fprintln(c.Conn, line); err != nil {
		c.Errorf("saying %q: %v", line, err)
	}
}

// hear returns the next line from the server, if it comes in so long.
func (c *caller) hear(within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	line, err := c.replies.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (c *caller) hears(want string) {
	c.Helper()
	if line, err := c.hear(linkPatience); line != want {
		c.Errorf("heard %q, %v; want %q", line, err, want)
	}
}

// silent checks that the connection is open, and nothing comes.
func (c *caller) silent() {
	c.Helper()
	if line, err := c.hear(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.Errorf("heard %q, %v; want an open connection that is silent", line, err)
	}
}

// ended checks that the connection has ended; clean is whether that is not a reset.
func (c *caller) ended(clean bool) {
	c.Helper()
	if line, err := c.hear(linkPatience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || (err == io.EOF) != clean {
		c.Errorf("heard %q, %v; want the end, clean: %v", line, err, clean)
	}
}
