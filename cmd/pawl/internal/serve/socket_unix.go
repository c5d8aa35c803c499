// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"net"
	"syscall"
)

// listenPrivately makes a socket for its owner alone. It sets the umask instead of changing the mode
// afterwards, because other users could connect in between.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
