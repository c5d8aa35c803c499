// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"bytes"
	"errors"
	"net"
)

// refusable is a connection that the server may refuse at once, because it has as many
// as it may have. rueidis has sent several commands by then, and reports only that they
// got no answer.
type refusable struct {
	net.Conn
	heard bool
	first func() bool // called when something is heard, or at the end; may be nil
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
