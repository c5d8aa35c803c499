// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl"
)

// spreading is a proxy before several servers, which gets each its turn: the commands of all
// clients go to one after the other. What begins a connection goes to all. Of what is pushed only the answers to SUBSCRIBE
// arrive.
type spreading struct {
	t    testing.TB
	to   []string
	turn atomic.Uint64
}

func (p *spreading) listen() (addr string) {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return l.Addr().String()
}

func (p *spreading) serve(client net.Conn) {
	defer client.Close()
	var behind []net.Conn
	var replies []*bufio.Reader
	for _, addr := range p.to {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer c.Close()
		behind, replies = append(behind, c), append(replies, bufio.NewReader(c))
	}
	for commands := bufio.NewReader(client); ; {
		args, err := readCommand(commands)
		if err != nil {
			return
		}
		to, pushes := []int{int(p.turn.Add(1)) % len(behind)}, 0
		switch command := strings.ToUpper(string(args[0])); command {
		case "HELLO", "CLIENT", "SELECT":
			to = []int{0, 1}
		case "SUBSCRIBE", "UNSUBSCRIBE":
			pushes = len(args) - 1
		}
		for n, i := range to {
			fmt.Fprintf(behind[i], "*%d\r\n", len(args))
			for _, a := range args {
				fmt.Fprintf(behind[i], "$%d\r\n%s\r\n", len(a), a)
			}
			answer := io.Writer(client)
			if n > 0 {
				answer = io.Discard
			}
			if err := copyReplies(answer, replies[i], pushes); err != nil {
				return
			}
		}
	}
}

// copyReplies copies so many pushes, or else the first reply that is none. Other pushes are lost.
func copyReplies(to io.Writer, from *bufio.Reader, pushes int) error {
	for {
		next, err := from.Peek(1)
		switch {
		case err != nil:
			return err
		case next[0] != '>':
			return copyReply(to, from)
		case pushes == 0:
			err = copyReply(io.Discard, from)
		default:
			if err = copyReply(to, from); pushes == 1 {
				return err
			}
			pushes--
		}
		if err != nil {
			return err
		}
	}
}

// copyReply copies one reply, of RESP2 or RESP3.
func copyReply(to io.Writer, from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	io.WriteString(to, line)
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch {
	case err != nil || n < 0:
		return nil // a simple one, or none
	case strings.ContainsRune("$=!", rune(line[0])):
		_, err := io.CopyN(to, from, int64(n)+2)
		return err
	case line[0] == '%':
		n *= 2
	case !strings.ContainsRune("*~>", rune(line[0])):
		return nil
	}
	for range n {
		if err := copyReply(to, from); err != nil {
			return err
		}
	}
	return nil
}

// TestProxyThatSpreads: behind a proxy that sends commands to any of two servers no two hold
// a lock: a client does not open, or its calls fail. With Efficiency both get it.
func TestProxyThatSpreads(t *testing.T) {
	t.Parallel()
	p := &spreading{t: t}
	for range 2 {
		p.to = append(p.to, startServer(t).Addr)
	}
	url := "redis://" + p.listen()
	var loose [2]*pawl.Client
	for i := range loose {
		c := openClient(t, url, &Options{Mode: Efficiency})
		loose[i] = c
	}
	// Whose turn it is depends on the other commands of the clients, some of which come in the background.
	both := false
	for i := 0; i < 100 && !both; i++ {
		name := fmt.Sprint("control", i)
		_, err1 := loose[0].TryAcquire(t.Context(), name)
		_, err2 := loose[1].TryAcquire(t.Context(), name)
		both = err1 == nil && err2 == nil
	}
	if !both {
		t.Error("no two clients with Efficiency hold a lock; this shows nothing then")
	}
	told := false
	for range 10 {
		var leases []*pawl.Lease
		for range 2 {
			c := openClient(t, url, &Options{AssumeNew: true})
			lease, err := c.TryAcquire(t.Context(), "deploy")
			if err == nil {
				leases = append(leases, lease)
			} else {
				told = told || strings.Contains(err.Error(), "is it one server?")
			}
		}
		if len(leases) == 2 && leases[0].Err() == nil && leases[1].Err() == nil {
			t.Error("two clients hold the lock")
		}
	}
	if !told {
		t.Error("no error asks whether it is one server")
	}
}
