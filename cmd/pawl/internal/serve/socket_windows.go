// SPDX-License-Identifier: Apache-2.0

package serve

import "net"

// listenPrivately makes the socket. The rights of its folder are its own.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
