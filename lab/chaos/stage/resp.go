// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ask sends a command to a Redis server, over a new connection, and returns the answer as
// text: a line for each element of an array.
func ask(addr string, patience time.Duration, args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return "", err
	}
	return answer(bufio.NewReader(c))
}

func answer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	if line == "" {
		return "", errors.New("an empty answer")
	}
	switch rest := line[1:]; line[0] {
	case '-':
		return "", errors.New(rest)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(r, b)
		return string(b[:n]), err
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", err
		}
		var all []string
		for range n {
			s, err := answer(r)
			if err != nil {
				return "", err
			}
			all = append(all, s)
		}
		return strings.Join(all, "\n"), nil
	default:
		return rest, nil
	}
}
