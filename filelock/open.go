// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// Options are the settings of a client on a directory. The zero value and a nil *Options are valid.
type Options struct {
	pawl.Options

	// AllowShared accepts a directory to which other users can write, and makes files that they can use. Those
	// users can keep every lock for ever, and can break a lock by deleting its file. The directory must exist: its
	// owner decides who can use it. By default Open refuses such a directory.
	AllowShared bool
}

// Open returns a client on the leases in dir, or in DefaultDir if dir is empty. If dir is missing and AllowShared
// is not set, Open makes it, for this user only. Open does not make the directories above it, because a misspelt
// name would be a different store. For the same reason dir must be absolute. Open returns an error that says what
// to do if the directory cannot be used, or if other users can write to it and AllowShared is not set. It also
// returns the errors of pawl.New.
func Open(dir string, opts *Options) (*pawl.Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	d, err := NewStore(dir, opts)
	if err != nil {
		return nil, &pawl.Error{Op: "open", Err: err}
	}
	return pawl.New(d, &opts.Options)
}

// NewStore returns the store in dir, for programs that wrap the store before they pass it to pawl.New. It returns
// the errors of Open.
func NewStore(dir string, opts *Options) (driver.Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	var err error
	if dir == "" && opts.AllowShared {
		err = errors.New("the default directory is for one user alone: name the one that is shared")
	} else if dir == "" {
		dir, err = DefaultDir()
	} else if strings.Contains(dir, "://") {
		err = fmt.Errorf("%q is a URL: give the path of a directory, such as /var/lock/app", dir)
	} else if !filepath.IsAbs(dir) {
		err = fmt.Errorf("%q is relative: it would be another store in each working directory: give the whole path, such as /var/lib/app/locks", dir)
	} else {
		dir = filepath.Clean(dir)
		err = makeDir(dir, opts.AllowShared)
	}
	if err == nil {
		err = checkDir(dir, opts.AllowShared)
	}
	if err != nil {
		return nil, fmt.Errorf("filelock: %w", err)
	}
	if opts.Logger != nil {
		warnNetwork(dir, opts.Logger)
		if opts.AllowShared && forOneUser(dir) {
			opts.Logger.Warn("AllowShared (?shared=true) is set, but no other user can write to the directory of the locks, and so take one; "+
				"let its owner type chmod 1777, or leave the setting out", "dir", dir)
		}
	}
	return &store{dir: dir, shared: opts.AllowShared}, nil
}

// makeDir makes a directory for this user alone. It refuses to make a shared one: the first user would shut out
// all others, again after each reboot that empties the directory above.
func makeDir(dir string, shared bool) error {
	_, err := os.Stat(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if shared {
		return fmt.Errorf("the shared directory %s does not exist: make it as root with: install -d -m 1777 '%s'. "+
			"A reboot empties /run, /var/lock and /tmp: use one such as /var/lib/pawl, or a line in /etc/tmpfiles.d: d %s 1777", dir, dir, dir)
	}
	err = os.Mkdir(dir, 0o700)
	switch parent := filepath.Dir(dir); {
	case errors.Is(err, fs.ErrExist): // another process was quicker
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s does not exist, in which %s is to be made: if the name is right, type mkdir -p '%s'",
			parent, filepath.Base(dir), parent)
	}
	return err
}

// DefaultDir makes and returns the directory that Open uses if dir is empty: /tmp/pawl-UID, or on Windows pawl in
// os.TempDir. It returns an error if it cannot make the directory, or if the path is not a directory of this user.
//
// The path does not depend on the environment. A cron job has no XDG_RUNTIME_DIR, and its TMPDIR may differ from
// its user's sessions. With a path from these variables the job would not exclude the sessions, and nobody would
// notice. If processes have different /tmp directories, as with PrivateTmp of systemd, pass a directory to Open.
func DefaultDir() (string, error) { return defaultDir(tempDir()) }

func defaultDir(temp string) (string, error) {
	dir := filepath.Join(temp, "pawl")
	if uid := os.Geteuid(); uid >= 0 {
		dir += "-" + strconv.Itoa(uid)
	}
	// MkdirAll would follow a symbolic link that somebody else has put into the temporary directory.
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	if !ownDir(dir) {
		return "", fmt.Errorf("%s is not a directory of this user: "+
			"see who made it with: ls -ld '%s', or choose another one with --store file:///…", dir, dir)
	}
	return dir, nil
}

func tempDir() string {
	if runtime.GOOS == "windows" {
		return os.TempDir()
	}
	return "/tmp"
}

var warned sync.Map // the directories of which warnNetwork has warned

// forOneUser reports whether only the owner can write to a directory.
func forOneUser(dir string) bool {
	fi, err := os.Stat(dir)
	return err == nil && fi.Mode().Perm()&0o022 == 0
}

// warnNetwork logs a warning, once per process, if a directory is on a network file system.
func warnNetwork(dir string, log *slog.Logger) {
	kind := networkFS(dir)
	if kind == "" {
		return
	}
	if _, again := warned.LoadOrStore(dir, true); !again {
		log.Warn("the directory of the locks is on a network file system: "+
			"they may not exclude other machines, and waiters there are not woken; use a local directory or a server",
			"dir", dir, "type", kind)
	}
}

const tempPrefix = ".tmp-"

// tempName returns an unused name in the directory of path. It does not contain the name of path, because file
// names have at most 255 bytes.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), tempPrefix+rand.Text())
}
