// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// foreignLook is the shortest time between two looks of the first waiter at a lock of another library,
// which sends no message when it releases. Such locks occur with a Pattern.
const foreignLook = 100 * time.Millisecond

// foreign reports whether another library has written the value of a lock.
func foreign(value string) bool { return value != "" && strings.Count(value, " ") < 4 }

// agree makes sure that all clients of the store have the same pattern.
func (s *store) agree(ctx context.Context) error {
	err := s.server.Agree(ctx, true)
	if s.mode == Efficiency && errors.Is(err, fs.ErrPermission) {
		return nil // such a user needs only the locks
	}
	if s.server.Many() && s.layout.Pattern == "" && errors.Is(err, driver.ErrUnavailable) {
		return nil // the node with this record is down; each slot that is used has one of its own
	}
	return err
}
