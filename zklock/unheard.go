// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"errors"
	"os"
	"time"
)

// unheard handles the error of reading the answer to a request to connect. It ends the session if the read timed
// out and no server has answered for a TTL. By then the client trusts no lease of the session.
//
// The reason is a network that loses only the answers: the servers get each request to connect, which prolongs the
// session, so its nodes would keep all others out. If no server can be reached, or the servers say that they have
// no quorum, nothing prolongs the session. Then the client keeps it, because it may still exist when the servers
// are back.
func (l *link) unheard(err error) {
	s := l.s
	if s.sessionID() != 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.silentFor() >= s.ttl {
		s.end(errSession)
		l.sendClose()
	}
}

// sendClose asks the server to end the session. It sends the request after the request to connect, and does not
// wait for an answer.
func (l *link) sendClose() {
	b := []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5} // the length, the number of the request, and its type: -11
	l.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.Conn.Write(b)
}
