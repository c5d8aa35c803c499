// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filelock

import (
	"errors"
	"fmt"
	"os"

	"github.com/pawl-go/pawl/driver"
)

// These systems have no flock. NewStore returns an error.

func (*store) openFile(string, int, uint32) (*os.File, error) { return nil, errors.ErrUnsupported }

func checkDir(string, bool) error {
	return fmt.Errorf("this system has no flock: use another store: %w", errors.ErrUnsupported)
}

func ownDir(string) bool { return true }

func flock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func unflock(*os.File) {}

func (h *hold) announce(string) error { return errors.ErrUnsupported }

func (s *store) present(string) (bool, error) { return false, errors.ErrUnsupported }

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }
