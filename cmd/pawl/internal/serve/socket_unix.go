// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"net"
	"syscall"
)

// listenPrivately makes the socket with the rights that it is to have: there is no moment
// in which others can reach it.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
