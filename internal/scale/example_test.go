// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"fmt"

	"github.com/pawl-go/pawl/internal/scale"
)

// Example answers what docs/scale.md says of a very large service on Redis.
func Example() {
	s := scale.Stores["redis"]
	show := func(what string, w scale.Wish, on scale.Server) {
		fmt.Println(what)
		for _, n := range s.Needs(w, on) {
			fmt.Printf("  %-11s %.3g servers\n", n.Resource, n.Servers)
		}
	}
	w := scale.Wish{Clients: 1e6, Held: 1e7, TTL: 30, HandOffs: 1e5}
	show("as it comes", w, scale.Usual)

	more := scale.Usual
	more.Connections = 60_000
	show("60,000 connections a server", w, more)

	w.TTL = 300
	show("and a TTL of five minutes", w, more)

	w.Clients = 1e5
	show("and one client for ten processes", w, more)

	w.Everywhere = true
	show("and each client at all servers", w, more)
	// Output:
	// as it comes
	//   connections 200 servers
	//   processor   51 servers
	//   memory      2.68 servers
	//   network     0.442 servers
	// 60,000 connections a server
	//   processor   51 servers
	//   connections 33.3 servers
	//   memory      2.68 servers
	//   network     0.442 servers
	// and a TTL of five minutes
	//   connections 33.3 servers
	//   processor   15 servers
	//   memory      2.68 servers
	//   network     0.201 servers
	// and one client for ten processes
	//   processor   15 servers
	//   connections 3.33 servers
	//   memory      0.669 servers
	//   network     0.201 servers
	// and each client at all servers
	//   connections +Inf servers
	//   processor   15 servers
	//   memory      0.574 servers
	//   network     0.201 servers
}
