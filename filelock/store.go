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

// store is one participant. The participants of a directory share only the files in it.
type store struct {
	driver.Basic
	dir    string
	shared bool // for other users too
	tell   func(driver.Event)
}

// leases contains a *hold for each lease that this process holds, or a *place while the lease waits. A hold may
// last as long as the process, even if nothing else refers to it. The map keeps the finalizers from closing its
// files.
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

// lookEvery is how often a waiter looks without being woken, in case the waiter before it was stopped, and how
// often a holder checks that its lock file is there. Tests make it shorter.
var lookEvery = 3 * time.Second

// Caps implements driver.Store.
//
// SurvivesRestart is about the machine, as there is no server. A restart ends the processes and their leases, so
// the store forgets none. Tokens go on from the file, or from the clock if the restart has emptied the directory.
func (s *store) Caps() driver.Caps {
	const linux = runtime.GOOS == "linux"
	return driver.Caps{
		Guarantees: driver.Guarantees{Fencing: true, FIFO: linux, Shared: linux, Slots: linux, SurvivesRestart: true},
		Queue:      linux, Look: lookEvery, Shows: true, LongerTTL: true,
	}
}

// Listen implements driver.Store.
func (s *store) Listen(f func(driver.Event)) { s.tell = f }

// Suffixes of the files of one name. pawl deletes none of the files with a flock.
const (
	lockSuffix  = ".lock"  // the flock and the records
	gateSuffix  = ".gate"  // the flock under which holders join others
	slotSuffix  = ".slot"  // and a number: the flock of one slot
	fifoSuffix  = ".fifo"  // an exclusive holder has it open for reading
	heldSuffix  = ".held"  // directory with a FIFO for each holder of a shared lease or slot
	queueSuffix = ".queue" // directory with the waiters' tickets
)

// errBusy says that another process or lease has the flock, or that waiters come first.
var errBusy = errors.New("busy")

func (s *store) path(enc, suffix string) string { return filepath.Join(s.dir, enc+suffix) }

// try asks for a lease that is not in the queue. It returns errBusy if the name is not free.
func (s *store) try(ctx context.Context, req *driver.Request) (*hold, error) {
	switch h := s.held(req.Lease); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(req.Lease) > maxLease:
		return nil, fmt.Errorf("filelock: lease id has %d bytes: use at most %d", len(req.Lease), maxLease)
	case h != nil && !h.recalled(): // the request is repeated
		return h, nil
	case h != nil: // somebody has broken the lease before its client knew of the grant
		_, _ = s.End(ctx, driver.Ref{Lease: req.Lease}, driver.End{})
	}
	return s.attempt(ctx, req, false)
}

// refuse answers a request for a name that is not free.
func (s *store) refuse(req *driver.Request) (driver.Answer, error) {
	info, err := s.look(req.Name, nil)
	if err != nil {
		return driver.Answer{Rank: 1}, nil // the answer is that the name is held; the holders are optional
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

// attempt tries once to make req a holder. While the queue has live tickets, only its head may try. Other callers
// look at the queue before they lock, so that they do not get in the head's way, and once more afterwards, because
// a waiter may have joined in between.
func (s *store) attempt(ctx context.Context, req *driver.Request, head bool) (*hold, error) {
	enc := encode(req.Name)
	if !head && s.lined(enc) {
		return nil, errBusy
	}
	together := req.Shared || req.Slots > 0
	if together {
		leave, err := s.gate(ctx, enc)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	since := driver.Now()
	f, err := s.lock(s.path(enc, lockSuffix), tryFlock)
	alone := err == nil
	if together && err == errBusy {
		f, err = s.lock(s.path(enc, lockSuffix), flockShared)
	}
	if err != nil {
		return nil, err
	}
	h := &hold{store: s, lock: f, since: since}
	switch {
	case !head && s.lined(enc):
		err = errBusy
	case together:
		err = h.enter(enc, req, alone)
	default:
		err = h.begin(enc, req)
	}
	if err != nil {
		h.close()
		if _, slots := errors.AsType[*driver.SlotsError](err); err != errBusy && !slots {
			err = unavailable(err)
		}
		return nil, err
	}
	return h.known(), nil
}

// begin makes the owner of the flock a holder. The FIFO is opened after the flock is taken, so that an open FIFO
// proves a holder. The record is written last, so that a record never describes a lease whose holder seems to be
// gone.
func (h *hold) begin(enc string, req *driver.Request) error {
	if err := h.read(); err != nil {
		return err
	}
	if err := h.announce(enc); err != nil {
		return err
	}
	return h.write(req)
}

// lock opens a lock file and takes its flock, exclusively or shared. If the file was deleted or replaced in the
// meantime, its flock excludes nobody. So lock checks that the path still leads to the locked file.
func (s *store) lock(path string, take func(*os.File) (bool, error)) (*os.File, error) {
	for range 10 {
		f, err := s.open(path)
		if err != nil {
			return nil, unavailable(err)
		}
		ok, err := take(f)
		if ok && sameFile(f) {
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

// tryFlock is a variable so that a test can run code before the flock is taken.
var tryFlock = flock

// open opens a lock file, and makes it if it is missing. In a shared directory open first tries without O_CREAT:
// Linux refuses that flag for another user's file in a sticky directory.
func (s *store) open(path string) (*os.File, error) {
	if !s.shared {
		return s.openFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	f, err := s.openFile(path, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	err = s.install(path, func(tmp string) error { return os.WriteFile(tmp, nil, 0o666) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return s.openFile(path, os.O_RDWR, 0)
}

// install makes a file under a temporary name and links it to path when it is complete. In a shared directory the
// file has the mode that all users need, whatever the umask is. If path exists, install returns fs.ErrExist.
func (s *store) install(path string, create func(tmp string) error) error {
	tmp := tempName(path)
	defer os.Remove(tmp)
	if err := create(tmp); err != nil {
		return err
	}
	if s.shared {
		if err := os.Chmod(tmp, 0o666); err != nil {
			return err
		}
	}
	return os.Link(tmp, path)
}

// sameFile reports whether the path of f still leads to f.
func sameFile(f *os.File) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(here, there)
}
