// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// Addrs returns the addresses of the hosts in a URL that ParseURL has read. A host without a port gets the given one.
// ok is false if an address lacks a host.
func Addrs(hosts, port string) (addrs []string, ok bool) {
	for host := range strings.SplitSeq(hosts, ",") {
		one, err := url.Parse("any://" + host)
		if err != nil || one.Hostname() == "" || strings.Contains(one.Hostname(), ":") && host[0] != '[' {
			return nil, false
		}
		addrs = append(addrs, net.JoinHostPort(one.Hostname(), cmp.Or(one.Port(), port)))
	}
	return addrs, true
}
