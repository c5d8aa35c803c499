// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filelock

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// Break implements driver.Inspector. Only Linux lets a holder be asked.
func (s *store) Break(ctx context.Context, name, lease string, _ *driver.Holder, _ string) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	h, err := s.holding(name, lease)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s can only be asked to let go on Linux: end the process, and the lock is free: %w",
		h.Holder, errors.ErrUnsupported)
}
