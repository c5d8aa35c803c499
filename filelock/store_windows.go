// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"

	"github.com/pawl-go/pawl/driver"
)

// On Windows a locked range cannot be read by others. So both locks are one byte each, far beyond the content, and
// everybody can read the records.
const (
	lockByte     = 1 << 30   // its lock excludes
	presenceByte = 1<<30 + 1 // a holder locks it, too; observers try this byte, so that they never take lockByte
)

func (*store) openFile(path string, flags int, perm uint32) (*os.File, error) {
	return os.OpenFile(path, flags, os.FileMode(perm))
}

func lockRange(f *os.File, offset, flags uint32) (bool, error) {
	ol := &windows.Overlapped{Offset: offset}
	err := control(f, func(h windows.Handle) error { return windows.LockFileEx(h, flags, 0, 1, 0, ol) })
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func unlockRange(f *os.File, offset uint32) {
	ol := &windows.Overlapped{Offset: offset}
	_ = control(f, func(h windows.Handle) error { return windows.UnlockFileEx(h, 0, 1, 0, ol) })
}

func control(file *os.File, f func(windows.Handle) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Control(func(h uintptr) { err = f(windows.Handle(h)) })
	if cerr != nil {
		return cerr
	}
	return err
}

// flock takes the lock of f and reports whether it has it.
func flock(f *os.File) (bool, error) {
	return lockRange(f, lockByte, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

func unflock(f *os.File) {
	unlockRange(f, presenceByte)
	unlockRange(f, lockByte)
}

// announce makes the hold visible. It waits for observers that have locked the byte at this moment.
func (h *hold) announce(string) error {
	_, err := lockRange(h.lock, presenceByte, windows.LOCKFILE_EXCLUSIVE_LOCK)
	return err
}

// present reports whether somebody holds a name.
func (s *store) present(enc string) (bool, error) {
	f, err := os.OpenFile(s.path(enc, lockSuffix), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	free, err := lockRange(f, presenceByte, windows.LOCKFILE_FAIL_IMMEDIATELY)
	if free {
		unlockRange(f, presenceByte)
	}
	return !free, err
}

// checkDir returns an error unless dir is a directory. The directory's access control list says who may write to
// it.
func checkDir(dir string, _ bool) error {
	fi, err := os.Stat(dir)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s is not a directory: remove it, or choose another one with --store file:///…", dir)
	}
	return err
}

func ownDir(dir string) bool {
	fi, err := os.Lstat(dir)
	return err == nil && fi.IsDir()
}

// unavailable returns err as ErrUnavailable, with advice.
func unavailable(err error) error {
	hint := ""
	if errors.Is(err, errCorrupt) {
		hint = ": make sure that nobody holds the lock and delete the file; tokens go on from the clock"
	}
	return fmt.Errorf("%w: %w%s", driver.ErrUnavailable, err, hint)
}
