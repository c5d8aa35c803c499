// SPDX-License-Identifier: Apache-2.0

package serve

import "net"

// listenPrivately makes a socket, which inherits the rights of its folder.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
