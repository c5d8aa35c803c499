// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	tidyEvery = time.Hour
	tidyRows  = 1000
	keepFor   = 24 * time.Hour // how long an unused row stays
)

// tidy removes rows that are no longer needed, about once an hour.
func (s *store) tidy() {
	for pause := rand.N(tidyEvery); ; pause = tidyEvery/2 + rand.N(tidyEvery) {
		select {
		case <-time.After(pause):
			_ = s.tidyOnce(s.ctx, keepFor) // after an error the next call, or another client, does it
		case <-s.ctx.Done():
			return
		}
	}
}

// tidyOnce goes through all names.
func (s *store) tidyOnce(ctx context.Context, keep time.Duration) error {
	for after := ""; ; {
		a, err := s.call(ctx, "tidy", after, num(keep.Microseconds()), num(tidyRows))
		if err != nil || a.row[0] == nil {
			return err
		}
		after = string(a.row[0])
	}
}
