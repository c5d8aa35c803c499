// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Saw is storekit.ServerTime.Saw for the server: Redis expires keys by its wall clock.
func (s *Server) Saw(sent, heard driver.Instant, micros int64) (step time.Duration) {
	step, news := s.clock.Saw(sent, heard, micros)
	if news && s.Stepped != nil {
		s.Stepped(s.Addr, step)
	}
	return step
}
