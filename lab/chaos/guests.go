// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"path/filepath"

	"github.com/pawl-go/pawl/lab/chaos/stage"
)

// guests returns faults in which a guest, a client with other options than the workers, uses the same names for
// a while. The store may refuse the guest. If it does not, all promises have to hold.
func (c *crew) guests() []stage.Fault {
	var all []stage.Fault
	commands := stage.Guest{Kind: "commands", URL: c.run.stage.Direct, Args: []string{"-pawl", filepath.Join(filepath.Dir(c.run.program), "pawl")}}
	for _, g := range append(c.run.stage.Guests, commands, commands) {
		all = append(all, stage.Fault{Kind: "guest: " + g.Kind, Beyond: g.Beyond, Do: func(a *stage.Act) error {
			c.mu.Lock()
			c.born++
			n := c.born
			c.mu.Unlock()
			p, err := c.startAs(g.Program, fmt.Sprintf("g%d", n), g.URL, append([]string{"-seed", fmt.Sprint(c.run.seed + uint64(1000*n))}, g.Args...)...)
			if err != nil {
				return err
			}
			a.Last(4*a.TTL, 10*a.TTL)
			c.dismiss(p)
			return nil
		}})
	}
	return all
}
