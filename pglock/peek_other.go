// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package pglock

import "net"

func peek(net.Conn) (something, ok bool) { return false, false }
