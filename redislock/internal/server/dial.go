// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"github.com/redis/rueidis"
)

// Dial makes a client without outstaying ctx. There can be a client and an error:
// if it could not connect it tries again with every request.
func (p *Place) Dial(ctx context.Context) (rueidis.Client, error) {
	type made struct {
		client rueidis.Client
		err    error
	}
	ch := make(chan made, 1)
	go func() {
		c, err := rueidis.NewClient(p.client)
		ch <- made{c, err}
	}()
	select {
	case m := <-ch:
		return m.client, m.err
	case <-ctx.Done():
		go func() {
			if m := <-ch; m.client != nil {
				m.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}
