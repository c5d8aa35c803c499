// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func openDir(path string) (*Dir, error) {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: make it first, such as with mkdir -m 700", err)
	}
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return &Dir{path: path}, nil
}

// tryLock takes the flock of the file at path, and makes the file if it is missing. It returns nil if another
// process has the flock. Closing the file frees the flock, and so does the end of the process. Children do not
// inherit the flock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		switch err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return f, nil
		case syscall.EINTR:
			continue
		case syscall.EWOULDBLOCK:
			err = nil
		default:
			err = &fs.PathError{Op: "flock", Path: path, Err: err}
		}
		f.Close()
		return nil, err
	}
}

// syncDir makes a rename durable. It is a variable for tests.
var syncDir = func(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
