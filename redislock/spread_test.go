// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-go/pawl"
)

// spreading is a proxy before several servers, which gets each its turn: the commands of all
// clients go to one after the other. What begins a connection goes to all.
type spreading struct {
	t    testing.TB
	to   []string
	turn atomic.Uint64
}

func (p *spreading) listen() (addr string) {
	return proxy(p.t, func(client net.Conn) {
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
			to := []int{int(p.turn.Add(1)) % len(behind)}
			if slices.Contains([]string{"HELLO", "CLIENT", "SELECT"}, strings.ToUpper(string(args[0]))) {
				to = []int{1, 0}
			}
			var reply []byte
			for _, i := range to {
				if reply, err = exchange(behind[i], replies[i], args); err != nil {
					return
				}
			}
			if _, err := client.Write(reply); err != nil {
				return
			}
		}
	})
}

// exchange sends a command, and returns what the server writes before it answers an ECHO behind it.
func exchange(to io.Writer, from *bufio.Reader, args [][]byte) (reply []byte, err error) {
	mark := rand.Text()
	if err := writeCommand(to, args); err != nil {
		return nil, err
	}
	if err := writeCommand(to, [][]byte{[]byte("ECHO"), []byte(mark)}); err != nil {
		return nil, err
	}
	end := fmt.Appendf(nil, "$%d\r\n%s\r\n", len(mark), mark)
	for !bytes.HasSuffix(reply, end) {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		reply = append(reply, line...)
	}
	return bytes.TrimSuffix(reply, end), nil
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
