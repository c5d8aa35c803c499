// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filelock

import (
	"context"
	"errors"
	"os"

	"github.com/pawl-go/pawl/driver"
)

// There are exclusive leases only: the others are built on the queue.

func (s *store) attemptTogether(context.Context, *driver.Request, bool) (*grant, error) {
	return nil, errors.ErrUnsupported
}

func (s *store) otherSlots(*driver.Request, *driver.Info) error { return nil }

type member struct{}

func (m *member) free() {}

func (m *member) standUp(bool) {}

func (m *member) files(files []*os.File) []*os.File { return files }

func (m *member) sameFiles() bool { return true }

type seat struct{ record }

func (s *store) members(string) []seat { return nil }
