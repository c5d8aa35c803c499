// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
)

// unheard acts on the error of reading the answer to a request to connect. If the answer did not come in time, and no
// server has answered for a TTL, it ends the session. No lease of the session is trusted any more. But if the
// servers get the requests and only their answers are lost, each request to connect has prolonged the session, and its nodes keep
// everybody out. If no server can be reached, or the servers say that they have no quorum, nothing prolongs the session, and the client
// keeps it: it may still exist when the servers are back.
func (l *link) unheard(err error) {
	s := l.s
	if s.sessionID() != 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.silentFor() >= s.ttl {
		s.end(errSession)
		l.sendClose()
	}
}

// opClose is the kind of request that ends a session.
const opClose int32 = -11

// sendClose asks the server to end the session, behind the request to connect. It waits for no answer.
func (l *link) sendClose() {
	b := binary.BigEndian.AppendUint32(nil, 8)
	b = binary.BigEndian.AppendUint32(b, 1) // its number
	op := opClose
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	l.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.Conn.Write(b)
}
