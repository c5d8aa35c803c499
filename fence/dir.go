// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
)

// Dir is a Guard in a directory of a local file system, for the processes of one machine. The token is on disk
// before Do calls the function, so Dir forgets it neither after kill -9 nor after a power cut. If a process is
// killed in Do, the next one gets in. While a process is stopped in Do, the others wait. They get in in no
// particular order, and up to 50 ms late.
//
// Each resource has two small files, NAME.lock and NAME.token, which stay for ever. NAME is derived from the
// SHA-256 of the resource. If the files are deleted, the resource forgets its token. If they are restored from a
// backup, it has an older token. Do refuses a damaged file.
type Dir struct {
	path  string
	gates gates
}

// OpenDir returns a Guard in an existing directory. A user who may write to the directory may write with any
// token. On systems without flock(2), such as Windows, the error is errors.ErrUnsupported.
func OpenDir(path string) (*Dir, error) {
	abs, err := filepath.Abs(path) // with a relative path os.Chdir would lead to other tokens
	if err != nil {
		return nil, fmt.Errorf("fence: a guard in %s: %w", path, err)
	}
	d, err := openDir(abs)
	if err != nil {
		return nil, fmt.Errorf("fence: a guard in %s: %w", path, err)
	}
	return d, nil
}

// Do implements Guard.
func (d *Dir) Do(ctx context.Context, resource string, token pawl.Token, f func() error) error {
	if err := Check(resource, token); err != nil {
		return err
	}
	// Goroutines wait for each other here. Only one of them waits for other processes.
	g, err := d.gates.enter(ctx, resource)
	if err != nil {
		return err
	}
	defer g.leave()
	sum := sha256.Sum256([]byte(resource))
	name := filepath.Join(d.path, hex.EncodeToString(sum[:16]))
	lock, err := waitLock(ctx, name+".lock")
	if err != nil {
		return failed(ctx, resource, err)
	}
	defer lock.Close()
	if err := d.raise(g, name+".token", resource, token); err != nil {
		return failed(ctx, resource, err)
	}
	if f == nil {
		return nil
	}
	return f()
}

// failed adds the resource to an error that does not name it.
func failed(ctx context.Context, resource string, err error) error {
	if errors.Is(err, ErrStale) || ctx.Err() != nil && err == ctx.Err() {
		return err
	}
	return fmt.Errorf("fence: resource %q: %w", resource, err)
}

// waitLock polls for the flock. No message tells when a process has unlocked, and a thread that waits in flock(2)
// cannot be interrupted.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		lock, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			if err := ctx.Err(); err != nil {
				lock.Close()
				return nil, err
			}
			return lock, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// raise returns when token is the largest token on disk. The caller has the flock.
func (d *Dir) raise(g *gate, path, resource string, token pawl.Token) error {
	seen, err := readToken(path, resource)
	if err != nil {
		return err
	}
	if token < seen {
		return &StaleError{resource, token, seen}
	}
	if token > seen {
		g.seen = 0
		if err := writeToken(path, resource, token); err != nil {
			return err
		}
	}
	// The file may contain a token that is not on disk yet, from another process, or from this one before an
	// error. g.seen is what this process has made durable.
	if g.seen == token {
		return nil
	}
	if err := syncDir(d.path); err != nil {
		return err
	}
	g.seen = token
	return nil
}

// A token file is one line: magic, the checksum of the rest, the token, and the resource.
const magic = "pawl-fence1"

// readToken returns the token in a file, or 0 if there is no file.
func readToken(path, resource string) (pawl.Token, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	token, _, _ := strings.Cut(body(string(content)), " ")
	n, err := ParseToken(token)
	if err != nil || string(content) != line(resource, n) {
		// Beginning at 0 would let every old token in.
		return 0, &fs.PathError{Op: "read", Path: path, Err: errors.New(
			"the file is damaged, so the largest token is not known: make sure that nobody holds the lock, and delete the file")}
	}
	return n, nil
}

// body returns a line without the magic and the checksum.
func body(line string) string {
	fields := strings.SplitN(line, " ", 3)
	return fields[len(fields)-1]
}

func line(resource string, token pawl.Token) string {
	body := strconv.FormatUint(uint64(token), 10) + " " + strconv.Quote(resource) + "\n"
	return fmt.Sprintf("%s %08x %s", magic, crc32.ChecksumIEEE([]byte(body)), body)
}

// writeToken replaces the file. After a crash the file is whole, old or new. The temporary name is always the
// same, so that processes that are killed here leave only one file behind. writeToken removes a file with that
// name first: in a directory to which others may write, it may be a link.
func writeToken(path, resource string, token pawl.Token) error {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line(resource, token))
	if err == nil {
		err = syncFile(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

var syncFile = (*os.File).Sync // a variable for tests
