// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"errors"
	"net"
)

// refusable is a connection that the server may refuse as its first word, for
// having as many as it may, without waiting for ours. rueidis has sent several
// commands by then, and tells only that the others got no answer.
type refusable struct {
	net.Conn
	heard bool
}

var errTooMany = errors.New("max number of clients reached")

func (c *refusable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard {
		c.heard = true
		if bytes.HasPrefix(b[:n], []byte("-ERR "+errTooMany.Error())) {
			return 0, dialError{errTooMany}
		}
	}
	return n, err
}
