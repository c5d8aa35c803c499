// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// counts are the sums of the counters of all Redis servers.
type counts struct {
	calls map[string]int64 // calls of each command, also by scripts
	reads int64            // how often the servers read from a connection
}

// counted asks every Redis server.
func (w *world) counted() (*counts, error) {
	c := &counts{calls: map[string]int64{}}
	for _, addr := range w.Redis {
		for _, section := range []string{"commandstats", "stats"} {
			text, err := command(addr, "INFO", section)
			if err != nil {
				return nil, err
			}
			c.add(text)
		}
	}
	return c, nil
}

func (c *counts) add(info string) {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, ok := strings.CutPrefix(key, "cmdstat_"); ok {
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseInt(calls, 10, 64)
			c.calls[name] += n
		} else if key == "total_reads_processed" {
			n, _ := strconv.ParseInt(value, 10, 64)
			c.reads += n
		}
	}
}

// since returns how many commands the servers have run since before, and how many of them
// were requests of clients: scripts, and the commands in direct.
func (c *counts) since(before *counts, direct []string) (requests, commands int64) {
	for name, n := range c.calls {
		if name == "info" {
			continue // we sent it
		}
		n -= before.calls[name]
		commands += n
		for _, d := range append([]string{"evalsha", "eval"}, direct...) {
			if name == d {
				requests += n
			}
		}
	}
	return requests, commands
}

// command sends a command to a Redis server and returns the answer, which has to be a
// string or a number.
func command(addr string, words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	switch line[0] {
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", err
		}
		data := make([]byte, n)
		_, err = io.ReadFull(r, data)
		return string(data), err
	case '-':
		return "", fmt.Errorf("%s: %s", words[0], line[1:])
	}
	return line[1:], nil
}
