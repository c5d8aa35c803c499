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

// These systems have no queue, so package pawl polls. A queue needs a poller that reports when a FIFO loses its
// last reader, and kqueue does not (golang.org/issue/24164). Shared leases, slots and Break need the queue.

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

func (s *store) gate(context.Context, string) (func(), error) { return nil, errors.ErrUnsupported }

func (h *hold) enter(string, *driver.Request, bool) error { return errors.ErrUnsupported }

func flockShared(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func (h *hold) listen() {}

func (s *store) lined(string) bool { return false }

func (s *store) waiters(string) []driver.Waiter { return nil }

type shownHolder struct{ record }

func (s *store) members(string) []shownHolder { return nil }

// flocks returns nil: the owners of flocks are unknown here.
func flocks() map[string]int { return nil }

func lockKey(string) string { return "" }

func program(int) string { return "" }

// networkFS returns "": the kind of file system is known on Linux only.
func networkFS(string) string { return "" }

// process identifies a process. It only informs people.
type process struct {
	PID int `json:"pid"`
}

func self() process { return process{os.Getpid()} }

func (p process) here() bool { return true }

// dead returns false: nobody knows here whether p has ended.
func (p process) dead() bool { return false }

// datasync returns when the content of f is on disk.
func datasync(f *os.File) error { return f.Sync() }
