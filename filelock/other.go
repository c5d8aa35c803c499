// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawl-go/pawl/driver"
)

// There is no queue: package pawl polls. Waiting for a FIFO to lose its last reader needs a poller that tells, and
// kqueue does not (golang.org/issue/24164). Leases that are not exclusive, and asking for one, are built on the queue.

// Ask implements driver.Store.
func (s *store) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	h, err := s.try(ctx, req)
	switch err {
	case nil:
		return h.answer(), nil
	case errBusy:
		return s.refuse(req)
	}
	return driver.Answer{}, failed(err)
}

// Break implements driver.Store.
func (s *store) Break(_ context.Context, name, lease string, _ *driver.Holder, _ string) error {
	h, err := s.holding(name, lease)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s can only be asked to let go on Linux: end the process, and the lock is free: %w",
		h.Holder, errors.ErrUnsupported)
}

func (s *store) attemptTogether(context.Context, *driver.Request, bool) (*hold, error) {
	return nil, errors.ErrUnsupported
}

func (h *hold) listen() {}

func (s *store) lined(string) bool { return false }

func (s *store) waiters(string) []driver.Waiter { return nil }

type member struct{}

func (m *member) free() {}

func (m *member) standUp(bool) {}

func (m *member) files(files []*os.File) []*os.File { return files }

func (m *member) sameFiles() bool { return true }

type seat struct{ record }

func (s *store) members(string) []seat { return nil }

// flocks tells who has a flock, which nobody does here.
func flocks() map[string]int { return nil }

func lockKey(string) string { return "" }

func program(int) string { return "" }

// networkFS is known on Linux only.
func networkFS(string) string { return "" }

// process identifies a process. It serves people only.
type process struct {
	PID int `json:"pid"`
}

func self() process { return process{os.Getpid()} }

func (p process) here() bool { return true }

// dead reports whether p has certainly ended, which is not known here.
func (p process) dead() bool { return false }

// datasync returns when the content of f is on the disk.
func datasync(f *os.File) error { return f.Sync() }
