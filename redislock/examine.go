// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// Examine implements driver.Store. It examines all masters of a cluster at the same time, then the keys of one after the
// other.
func (s *store) Examine(ctx context.Context) []driver.Finding {
	servers, err := s.server.Servers(ctx)
	if err != nil {
		return []driver.Finding{{Check: "server", Level: driver.Problem, Text: "the masters of the cluster are not known: " + err.Error(), Do: "see: redis-cli --cluster check HOST:PORT"}}
	}
	found := epoch.Examine(ctx, servers)
	for _, srv := range servers {
		found = append(found, s.foreignKeys(ctx, srv)...)
	}
	return found
}
