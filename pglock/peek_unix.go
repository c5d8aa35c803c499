// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pglock

import (
	"crypto/tls"
	"net"
	"syscall"
)

// peek reports whether input or the end of input has come on a connection. It leaves the input there. ok is false
// if it could not find out.
func peek(c net.Conn) (something, ok bool) {
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	s, is := c.(syscall.Conn)
	if !is {
		return false, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true, true
	}
	// raw.Read would wait for other reads to end. pgx leaves a read behind after a slow write.
	err = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		something = err != syscall.EAGAIN && err != syscall.EINTR
	})
	return something || err != nil, true
}
