// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

const elsewhere = "or choose another one with --store file:///…"

// checkDir returns an error that says what to type, unless this user can write to dir and, unless shared is set,
// no other user but root can.
func checkDir(dir string, shared bool) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory: name one, as in --store file:///var/lib/pawl", dir)
	}
	st := fi.Sys().(*syscall.Stat_t)
	owned := int(st.Uid) == os.Geteuid() || st.Uid == 0
	switch {
	case shared:
	case !owned:
		return fmt.Errorf("directory %s belongs to user %d, who could end every lock: "+
			"type chown %d '%s', %s, or allow it with ?shared=true (Options.AllowShared)", dir, st.Uid, os.Geteuid(), dir, elsewhere)
	case fi.Mode()&fs.ModeSticky != 0 && fi.Mode().Perm()&0o022 != 0: // such as /tmp
		return fmt.Errorf("directory %s is meant for everybody, so others could end every lock: "+
			"name one of your own in it, such as '%s', or allow it with ?shared=true (Options.AllowShared)",
			dir, filepath.Join(dir, "locks"))
	case fi.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("directory %s has mode %v, so others could end every lock: "+
			"type chmod 700 '%s', %s, or allow it with ?shared=true (Options.AllowShared)", dir, fi.Mode(), dir, elsewhere)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		hint := "type chmod u+rwx '" + dir + "'"
		switch {
		case errors.Is(err, unix.EROFS):
			hint = "the file system is read-only"
		case shared:
			hint = "let its owner type chmod 1777 '" + dir + "'"
		case int(st.Uid) != os.Geteuid(): // only root can change it
			hint = "see who owns it with ls -ld '" + dir + "'"
		}
		return fmt.Errorf("cannot write to directory %s (mode %v, user %d): %w: %s, %s", dir, fi.Mode(), st.Uid, err, hint, elsewhere)
	}
	return nil
}

// ownDir reports whether dir is a directory of this user. A link to a directory does not count.
func ownDir(dir string) bool {
	fi, err := os.Lstat(dir)
	return err == nil && fi.IsDir() && int(fi.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
}

// unavailable returns err as ErrUnavailable, with advice.
func unavailable(err error) error {
	hint := ""
	switch {
	case errors.Is(err, errCorrupt):
		hint = ": make sure that nobody holds the lock and delete the file; tokens go on from the clock"
	case errors.Is(err, errNoFile), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR),
		errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		hint = ": pawl has not made it: see with ls -l, and delete it; in a directory with mode 1777 only its owner and root can"
	case errors.Is(err, errOwner): // deleting the file would free a lock that is held
		path := ""
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			path = pe.Path
		}
		hint = fmt.Sprintf(": see who holds it with fuser -v '%s'; then, as root, type chown %d '%[1]s'", path, os.Geteuid())
	case errors.Is(err, unix.EWOULDBLOCK):
		hint = ": a process has a lease (fcntl) on it: see with fuser -v, and end it"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		hint = ": free some space there, " + elsewhere
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP):
		hint = ": choose another directory with --store file:///…"
	case errors.Is(err, fs.ErrPermission):
		hint = ": somebody else's file? See with ls -l, " + elsewhere
	case errors.Is(err, unix.EMFILE):
		hint = ": raise the limit of open files with ulimit -n"
	}
	return fmt.Errorf("%w: %w%s", driver.ErrUnavailable, err, hint)
}
