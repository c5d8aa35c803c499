// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// store is one participant. All that participants share is in the directory.
type store struct {
	driver.Basic
	dir    string
	shared bool // for other users too
	tell   func(driver.Event)
}

// leases has what this process has open for each lease, a *hold or, while it waits, its *place. Nobody else may
// have a reference to a hold that lasts as long as the process, and its files must not be closed by their
// finalizers.
var leases sync.Map // by key

type key struct {
	*store
	lease string
}

func (s *store) held(lease string) *hold {
	l, _ := leases.Load(key{s, lease})
	h, _ := l.(*hold)
	return h
}

// lookEvery bounds what it costs when a waiter is not woken because the one before it was stopped, and after which
// time a holder finds out that its lock file was deleted. Tests make it shorter.
var lookEvery = 3 * time.Second

// Caps implements driver.Store.
//
// SurvivesRestart: what restarts is the machine. It ends the processes and
// thereby the leases, so none is forgotten, and tokens go on: from the file,
// or from the clock if the directory was lost with the restart.
func (s *store) Caps() driver.Caps {
	const linux = runtime.GOOS == "linux"
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, FIFO: linux, Shared: linux, Slots: linux, SurvivesRestart: true},
		Queue:      linux, Look: lookEvery, Shows: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.tell = f }

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

// try asks for a lease that is not in the queue. Its error is errBusy if the name is not free.
func (s *store) try(ctx context.Context, req *driver.Request) (*hold, error) {
	switch h := s.held(req.Lease); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(req.Lease) > maxLease:
		return nil, fmt.Errorf("filelock: lease id has %d bytes: use at most %d", len(req.Lease), maxLease)
	case h != nil && !h.recalled(): // the request is repeated
		return h, nil
	case h != nil: // it was asked for back before its client knew that it had the name
		_, _ = s.End(ctx, driver.Ref{Lease: req.Lease}, driver.End{})
	}
	return s.attempt(ctx, req, false)
}

// refuse answers a request for a name that is not free.
func (s *store) refuse(req *driver.Request) (driver.Answer, error) {
	info, err := s.look(req.Name)
	if err != nil {
		return driver.Answer{Rank: 1}, nil // the answer is that it is held; who holds it is a courtesy
	}
	for _, h := range info.Holders {
		if req.Slots > 0 && h.Slots > 0 && h.Slots != req.Slots {
			return driver.Answer{}, failed(&driver.SlotsError{Held: h.Slots, Wanted: req.Slots})
		}
	}
	return driver.Answer{Holders: info.Holders, Rank: min(len(info.Waiters), 1)}, nil
}

// failed returns err as the failure of a request that has changed nothing.
func failed(err error) error { return &driver.Failure{Err: err, Lasting: true} }

// attempt tries once to become a holder. Only the head of the queue may
// do so while the queue has live tickets. The others look before they lock, so
// that they do not get into the head's way, and once more after it, because
// somebody may have joined in between.
func (s *store) attempt(ctx context.Context, req *driver.Request, head bool) (*hold, error) {
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
	h := &hold{store: s, path: f.Name(), lock: f, since: since}
	if !head && s.lined(enc) {
		h.close()
		return nil, errBusy
	}
	if err := h.begin(enc, req); err != nil {
		h.close()
		return nil, unavailable(err)
	}
	return h.known(), nil
}

// begin makes the owner of the flock a holder. The flock comes first and the
// presence after it, so that presence means a holder and nobody else; and both
// come before the record, so that a record never describes somebody who
// seems to be absent.
func (h *hold) begin(enc string, req *driver.Request) error {
	if err := h.read(); err != nil {
		return err
	}
	if err := h.announce(enc); err != nil {
		return err
	}
	return h.write(req)
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
