// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// Listen listens at the address. On network unix, only the owner can use the socket, and Listen
// replaces a socket at which nobody listens any more.
func Listen(network, address string) (net.Listener, error) {
	if network != "unix" {
		return net.Listen(network, address)
	}
	l, err := listenPrivately(address)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if c, dialed := net.Dial(network, address); dialed == nil {
		c.Close()
		return nil, err
	} else if !errors.Is(dialed, syscall.ECONNREFUSED) {
		return nil, err
	}
	if st, gone := os.Lstat(address); gone != nil || st.Mode()&os.ModeSocket == 0 {
		return nil, err
	}
	if err := os.Remove(address); err != nil {
		return nil, err
	}
	return listenPrivately(address)
}
