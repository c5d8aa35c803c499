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

// foreignLook is the mean time between two looks of the first waiter while another library holds the lock, which
// sends no message when it releases it. With a Pattern that can happen.
const foreignLook = 100 * time.Millisecond

// foreign reports whether another library has written the value of a lock.
func foreign(value string) bool { return value != "" && strings.Count(value, " ") < 4 }

// agree returns an error if other clients of the store have another pattern.
func (s *store) agree(ctx context.Context) error {
	err := s.server.Agree(ctx, true)
	if s.mode == Efficiency && errors.Is(err, fs.ErrPermission) {
		return nil // with Efficiency a user needs rights to the locks only
	}
	if s.server.Many() && s.layout.Pattern == "" && errors.Is(err, driver.ErrUnavailable) {
		return nil // the node with the record is down; requests check the record of each slot
	}
	return err
}
