// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
)

// unheard is told how reading the answer to the request to connect over l has failed. If
// it did not come in time, and nothing has been heard of the servers for a TTL, the session
// is given up. No lease of it can be trusted any more; but if the servers have got the
// request, and only their answers are lost, each such request has made the session live on,
// and its nodes keep everybody out. While no server can be reached, or all say
// that they have no quorum, there is no such harm, and the session is kept: it may be
// there still when the servers are.
func (l *link) unheard(err error) {
	s := l.s
	if s.sessionID() != 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.silentFor() >= s.ttl {
		s.end(errSession)
		l.sendClose()
	}
}

// opClose is the kind of request that ends a session.
const opClose int32 = -11

// sendClose asks the server to end the session, behind the request to connect, and does
// not wait for what cannot be heard.
func (l *link) sendClose() {
	b := binary.BigEndian.AppendUint32(nil, 8)
	b = binary.BigEndian.AppendUint32(b, 1) // its number
	op := opClose
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	l.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.Conn.Write(b)
}
