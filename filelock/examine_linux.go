// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl/driver"
)

// Examine implements driver.Store. It checks the file system of the directory, and how many files this process may
// open.
func (s *store) Examine(context.Context) []driver.Finding {
	var found []driver.Finding
	tell := func(check string, level driver.Level, text, do string) {
		found = append(found, driver.Finding{Check: check, Level: level, Text: text, Do: do})
	}
	if kind := networkFS(s.dir); kind != "" {
		tell("file system", driver.Warning, "the directory is on a network file system ("+kind+"): its locks may not exclude other machines, and waiters there are not woken",
			"use a local directory or a server")
	}
	if s.shared && forOneUser(s.dir) {
		tell("directory", driver.Warning, "the URL says that the directory is shared, and no other user can write to it", "let its owner type: chmod 1777 "+s.dir+"; or leave ?shared=true out")
	}
	var fs unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(s.dir, &fs) }); err != nil {
		tell("file system", driver.Problem, "the file system of the directory does not say how it is: "+err.Error(), "see: df "+s.dir)
		return found
	}
	space := int64(fs.Bavail) * fs.Bsize
	text := fmt.Sprintf("the disk with the locks has room for %d MB and %d more files", space>>20, fs.Ffree)
	switch {
	case fs.Flags&unix.ST_RDONLY != 0:
		tell("file system", driver.Problem, "the directory is on a file system that is read-only", "mount it for writing, or choose another directory")
	case space < 1<<20, fs.Files > 0 && fs.Ffree < 100: // some file systems do not count files
		tell("file system", driver.Problem, text+": a new lock may find no room", "free some space there: df -h, df -i")
	default:
		tell("file system", driver.Fine, text, "")
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur < 64 {
		tell("descriptors", driver.Warning, fmt.Sprintf("a process may open %d files only", files.Cur), "raise the limit: ulimit -n")
	}
	return found
}
