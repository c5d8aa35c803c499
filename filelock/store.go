// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// store is one participant. It keeps nothing open between grants: all that
// participants share is in the directory.
type store struct {
	dir      string
	shared   bool            // for other users too
	together sync.Map        // ids of this participant's leases that are not exclusive
	closed   context.Context // ends with Close
	close    context.CancelFunc
}

// Suffixes of the files of one name.
const (
	lockSuffix  = ".lock"  // the flock and the records; never deleted by us
	gateSuffix  = ".gate"  // the flock taken to join others; never deleted by us
	slotSuffix  = ".slot"  // and a number: the flock of one slot; never deleted by us
	fifoSuffix  = ".fifo"  // open for reading as long as somebody holds the lock alone
	heldSuffix  = ".held"  // directory of the FIFOs of those who hold it together
	queueSuffix = ".queue" // directory of the waiters' tickets
)

// errBusy says that somebody else has the flock, or comes before us.
var errBusy = errors.New("busy")

func (s *store) path(enc, suffix string) string { return filepath.Join(s.dir, enc+suffix) }

// TryAcquire implements driver.Driver. It does not overtake those who wait.
func (s *store) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	if err := s.check(ctx, req); err != nil {
		return nil, err
	}
	g, err := s.attempt(ctx, req, false)
	switch {
	case err == nil:
		return g, nil
	case err != errBusy:
		return nil, err
	}
	info, err := s.look(req.Name)
	if err != nil {
		info = nil // the answer is that it is held; who holds it is a courtesy
	}
	if err := s.otherSlots(req, info); err != nil {
		return nil, err
	}
	return nil, &driver.HeldError{Info: info}
}

func (s *store) check(ctx context.Context, req *driver.Request) error {
	if len(req.Lease) > maxLease {
		return fmt.Errorf("filelock: lease id has %d bytes: use at most %d", len(req.Lease), maxLease)
	}
	return s.usable(ctx)
}

func (s *store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Err() != nil {
		return unavailable(fmt.Errorf("filelock: %w", driver.ErrClosed))
	}
	return nil
}

// Close implements driver.Driver. It ends the waiting; grants stay.
func (s *store) Close() error {
	s.close()
	return nil
}

// attempt tries once to become a holder. Only the head of the queue may
// do so while the queue has live tickets. The others look before they lock, so
// that they do not get into the head's way, and once more after it, because
// somebody may have joined in between.
func (s *store) attempt(ctx context.Context, req *driver.Request, head bool) (*grant, error) {
	if req.Shared || req.Slots > 0 {
		return s.attemptTogether(ctx, req, head)
	}
	since := driver.Now()
	enc := encode(req.Name)
	if !head && s.lined(enc) {
		return nil, errBusy
	}
	f, err := s.lock(s.path(enc, lockSuffix), tryFlock)
	if err != nil {
		return nil, err
	}
	h := &hold{store: s, path: f.Name(), lock: f}
	if !head && s.lined(enc) {
		h.drop()
		return nil, errBusy
	}
	g, err := s.begin(h, enc, req, since)
	if err != nil {
		h.drop()
		return nil, unavailable(err)
	}
	return g, nil
}

// begin makes the owner of the flock a holder. The flock comes first and the
// presence after it, so that presence means a holder and nobody else; and both
// come before the record, so that a record never describes somebody who
// seems to be absent.
func (s *store) begin(h *hold, enc string, req *driver.Request, since driver.Instant) (*grant, error) {
	var err error
	if h.st, err = readState(h.lock); err != nil {
		return nil, fmt.Errorf("%s: %w", h.path, err)
	}
	if err := h.announce(enc); err != nil {
		return nil, err
	}
	if err := h.write(req); err != nil {
		return nil, err
	}
	return h.grant(since), nil
}

// lock opens a lock file and takes its flock, alone or in common. A file that
// was deleted or replaced in the meantime excludes nobody, so the name must still
// lead to the file that we have locked.
func (s *store) lock(path string, take func(*os.File) (bool, error)) (*os.File, error) {
	for range 10 {
		f, err := s.open(path)
		if err != nil {
			return nil, unavailable(err)
		}
		ok, err := take(f)
		if ok && sameFile(f, path) {
			return f, nil
		}
		f.Close()
		switch {
		case err != nil:
			return nil, unavailable(fmt.Errorf("flock %s: %w", path, err))
		case !ok:
			return nil, errBusy
		}
	}
	return nil, unavailable(fmt.Errorf("%s: somebody keeps deleting it: %w", path, fs.ErrNotExist))
}

// tryFlock is a variable so that a test can get in before it.
var tryFlock = flock

// open opens a lock file, and makes it if need be. In a shared directory it is
// opened without O_CREAT first: Linux forbids that flag on another user's
// file in a sticky directory.
func (s *store) open(path string) (*os.File, error) {
	if !s.shared {
		return s.openFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	f, err := s.openFile(path, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	err = s.install(path, func(tmp string) error { return os.WriteFile(tmp, nil, 0o666) })
	if err != nil {
		return nil, err
	}
	return s.openFile(path, os.O_RDWR, 0)
}

// install makes a file under another name and links it to path when it is
// complete, with the mode that everybody needs whatever the umask is. A file
// that is there already stays.
func (s *store) install(path string, create func(tmp string) error) error {
	tmp := tempName(path)
	defer os.Remove(tmp)
	if err := create(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o666); err != nil {
		return err
	}
	if err := os.Link(tmp, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// sameFile reports whether path still leads to f.
func sameFile(f *os.File, path string) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(here, there)
}
