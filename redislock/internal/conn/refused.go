// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"bytes"
	"errors"
	"net"
)

// refusable is a connection that makes Read return errTooMany if the server has too many
// clients and refuses the connection. rueidis sends several commands at once, and without
// refusable would only report that they got no answer.
type refusable struct {
	net.Conn
	heard bool        // a byte has arrived
	first func() bool // called when the first byte arrives, and at the end; may be nil
}

var errTooMany = errors.New("max number of clients reached")

func (c *refusable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard {
		c.heard = true
		c.done()
		if bytes.HasPrefix(b[:n], []byte("-ERR "+errTooMany.Error())) {
			return 0, dialError{errTooMany}
		}
	}
	return n, err
}

func (c *refusable) Close() error {
	c.done()
	return c.Conn.Close()
}

func (c *refusable) done() {
	if c.first != nil {
		c.first()
	}
}
