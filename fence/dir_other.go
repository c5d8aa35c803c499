// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package fence

import (
	"errors"
	"fmt"
	"os"
)

func openDir(string) (*Dir, error) {
	return nil, fmt.Errorf("it needs flock(2): %w", errors.ErrUnsupported)
}

func tryLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }

var syncDir = func(string) error { return errors.ErrUnsupported }
