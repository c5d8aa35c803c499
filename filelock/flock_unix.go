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

// openFile opens a regular file of the directory, or with O_DIRECTORY a directory in it. Others may have put
// something else there. So openFile uses O_NONBLOCK: opening a FIFO waits for a writer, and opening a file with a
// lease (fcntl) waits for the lease's owner.
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

// trust returns an error unless fd is a file that openFile may open. It clears O_NONBLOCK, because os.NewFile
// would try to add a nonblocking file to the poller, which cannot watch regular files.
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

// flock takes the exclusive flock of f, and reports whether it has it. The flock belongs to f's open file
// description, so it also excludes other descriptions in this process.
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

// control calls f, again if a signal interrupts it.
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

// announce makes the hold visible: it opens the FIFO for reading. It opens it for writing, too, so that the reader
// does not reach the end of the file whenever no writer is there.
func (h *hold) announce(enc string) error {
	path := h.store.path(enc, fifoSuffix)
	// This process has the flock, so only a cleaner could make or remove the FIFO.
	for range 10 {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			if err := h.store.makeFIFO(path); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
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

// makeFIFO makes a FIFO. Only a shared directory needs the mode, and the hard link, of install.
func (s *store) makeFIFO(path string) error {
	if !s.shared {
		return mkfifo(path)
	}
	return s.install(path, mkfifo)
}

func mkfifo(path string) error {
	if err := ignoringEINTR(func() error { return unix.Mkfifo(path, 0o600) }); err != nil {
		return &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	return nil
}

func isFIFO(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode().Type() == fs.ModeNamedPipe
}

// openFIFO opens the FIFO at path for writing. It returns nil if the FIFO has no reader or does not exist.
func openFIFO(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ENXIO), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !isFIFO(f):
		f.Close()
		return nil, nil
	}
	return f, nil
}

// present reports whether a process has the FIFO at path open for reading.
func present(path string) (bool, error) {
	f, err := openFIFO(path)
	f.Close()
	return f != nil, err
}

// present reports whether somebody holds a name.
func (s *store) present(enc string) (bool, error) { return present(s.path(enc, fifoSuffix)) }
