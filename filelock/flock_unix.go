// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var (
	errNoFile = errors.New("not a regular file")
	errOwner  = errors.New("a file of another user, in a directory that is not shared")
)

// openFile opens a regular file of the directory, or with O_DIRECTORY a directory in it. Others may
// have put something else there: O_NONBLOCK, because to open a FIFO waits for a writer, and to open a file
// with a lease (fcntl) for its owner.
func (s *store) openFile(path string, flags int, perm uint32) (*os.File, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
		return err
	})
	if err == nil {
		if err = s.trust(fd, flags); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// trust returns an error unless fd is what openFile opens. It clears O_NONBLOCK, at which os.NewFile
// would try to have the poller watch a file that it cannot.
func (s *store) trust(fd, flags int) error {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	switch {
	case flags&unix.O_DIRECTORY == 0 && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errNoFile
	case !s.shared && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return errOwner
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&unix.O_ACCMODE)
	return err
}

// flock takes the lock of f's open file description, which excludes other
// descriptions also of this process, and reports whether it is ours.
func flock(f *os.File) (bool, error) {
	err := control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func unflock(f *os.File) {
	_ = control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}

// control calls f until it was not interrupted by a signal.
func control(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Control(func(fd uintptr) { err = ignoringEINTR(func() error { return f(int(fd)) }) })
	if cerr != nil {
		return cerr
	}
	return err
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// announce makes the hold visible: it opens the FIFO for reading. For writing
// too, or a reader would be at the end of the file whenever nobody writes.
func (h *hold) announce(enc string) error {
	path := h.store.path(enc, fifoSuffix)
	// Nobody else makes or removes the FIFO but a cleaner, as we have the flock.
	for range 10 {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			if err := h.store.mkfifo(path); err != nil {
				return &fs.PathError{Op: "mkfifo", Path: path, Err: err}
			}
			continue
		}
		if err == nil && !isFIFO(f) {
			f.Close()
			err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a FIFO: delete it")}
		}
		if err == nil {
			h.fifo = f
		}
		return err
	}
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("somebody keeps deleting it")}
}

func (s *store) mkfifo(path string) error {
	if !s.shared {
		return mkfifo(path, 0o600)
	}
	return s.install(path, func(tmp string) error { return mkfifo(tmp, 0o666) })
}

func mkfifo(path string, mode uint32) error {
	return ignoringEINTR(func() error { return unix.Mkfifo(path, mode) })
}

func isFIFO(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode().Type() == fs.ModeNamedPipe
}

// present reports whether somebody has the FIFO at path open for reading.
func present(path string) (bool, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	switch err {
	case nil:
	case unix.ENXIO, unix.ENOENT:
		return false, nil
	default:
		return false, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Mode&unix.S_IFMT == unix.S_IFIFO, err
}

// present reports whether somebody holds a name.
func (s *store) present(enc string) (bool, error) { return present(s.path(enc, fifoSuffix)) }
