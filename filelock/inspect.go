// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/pawl-go/pawl/driver"
)

// Inspect implements driver.Store. It never takes the flock, not even for a moment, so no other request fails
// because of it.
func (s *store) Inspect(_ context.Context, name string) (*driver.Info, error) {
	return s.look(name, nil)
}

// maxUnread limits how many unreadable lock files List names. In a shared directory anybody can make a million.
const maxUnread = 20

// List implements driver.Store.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, unavailable(err)
	}
	defer dir.Close()
	var infos []*driver.Info
	var damaged []error
	more := 0
	taken := flocks()
	for err == nil {
		var files []string
		files, err = dir.Readdirnames(256) // a directory may have millions
		for _, file := range files {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			info, err := s.lookFile(file, prefix, taken)
			_, only := driver.Unread(err)
			switch {
			case only && len(damaged) < maxUnread:
				damaged = append(damaged, err)
			case only:
				more++
			case err != nil:
				return nil, err
			case info != nil:
				infos = append(infos, info)
			}
		}
	}
	if err != io.EOF {
		return nil, unavailable(err)
	}
	if more > 0 {
		damaged = append(damaged, &driver.UnreadError{Err: fmt.Errorf("%w: %d more lock files cannot be read", driver.ErrUnavailable, more)})
	}
	slices.SortFunc(infos, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, errors.Join(damaged...)
}

// lookFile returns the state of the name of a lock file. It returns nil if the file is none, or if the name does not
// begin with prefix, or has neither holders nor waiters. If the file is damaged, lookFile returns an error in any
// case, as the name cannot be granted.
func (s *store) lookFile(file, prefix string, taken map[string]int) (*driver.Info, error) {
	enc, is := strings.CutSuffix(file, lockSuffix)
	name, known := decode(enc)
	if is && !known {
		st, err := s.read(enc)
		name = st.rec.Name
		is = err == nil && encode(name) == enc // else another program's file, or its first record is being written
	}
	if !is || !strings.HasPrefix(name, prefix) {
		return nil, nil
	}
	info, err := s.look(name, taken)
	if err != nil || len(info.Holders)+len(info.Waiters) == 0 {
		return nil, err
	}
	return info, nil
}

// unreadError returns err, which concerns a file of one name, as an error that does not stop List. If the process
// has no file descriptors left, no file can be read, and the error stops List.
func unreadError(name string, err error) error {
	if errors.Is(err, syscall.EMFILE) {
		return unavailable(err)
	}
	return &driver.UnreadError{Name: name, Err: unavailable(err)}
}

// held returns the holder in a record.
func (r record) held() driver.Held {
	h := r.Held
	h.Orphan = r.Process.dead()
	return h
}

// look returns the state of a name. If there is a record but the FIFO is not open, the holder has crashed. taken
// contains the flocks as they were a moment ago; if it is nil, look reads them.
func (s *store) look(name string, taken map[string]int) (*driver.Info, error) {
	enc := encode(name)
	info := &driver.Info{Name: name, Holders: []driver.Held{}, Waiters: s.waiters(enc)}
	here, err := s.present(enc)
	if err != nil {
		return nil, unreadError(name, err)
	}
	st, err := s.read(enc)
	if errors.Is(err, fs.ErrNotExist) {
		return info, nil
	}
	if err != nil {
		return nil, unreadError(name, err)
	}
	info.Token = driver.Token(st.last)
	switch {
	case st.rec.Shared || st.rec.Slots > 0:
		for _, m := range s.members(enc) {
			info.Holders = append(info.Holders, m.record.held())
		}
	case here && !st.released && st.rec.Token > 0:
		info.Holders = append(info.Holders, st.rec.held())
	}
	if len(info.Holders) == 0 && (here || taken == nil || taken[lockKey(s.path(enc, lockSuffix))] != 0) {
		info.Holders = s.unknown(enc, here, st)
	}
	return info, nil
}

// unknown returns the holder of a lock for which there is no record or no open FIFO. It may be another program
// that took the flock, a holder whose record or FIFO somebody has deleted, or one that is about to write its
// record. The lease then has no id.
func (s *store) unknown(enc string, here bool, st state) []driver.Held {
	pid := flocks()[lockKey(s.path(enc, lockSuffix))]
	switch {
	case pid != 0 && pid == st.rec.Process.PID && st.rec.Process.here() && !st.released:
		return []driver.Held{st.rec.held()}
	case pid == 0 && !(here && st.last == 0):
		return []driver.Held{}
	}
	h := driver.Held{Why: "not by pawl, or its record in the lock file is gone"}
	h.Who, h.PID, h.Command = "somebody who is not on record", pid, program(pid)
	h.Host, _ = os.Hostname()
	return []driver.Held{h}
}

// read reads the lock file of a name.
func (s *store) read(enc string) (state, error) {
	f, err := s.openFile(s.path(enc, lockSuffix), os.O_RDONLY, 0)
	if err != nil {
		return state{}, err
	}
	defer f.Close()
	st, err := readState(f)
	if err != nil {
		return st, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return st, nil
}

// holding returns the holder of name whose lease has the given id. If there is none, the error is a *HeldError, or
// ErrReleased if nobody holds the name.
func (s *store) holding(name, lease string) (*driver.Held, error) {
	info, err := s.look(name, nil)
	switch {
	case err != nil:
		return nil, err
	case len(info.Holders) == 0:
		return nil, driver.ErrReleased
	}
	i := slices.IndexFunc(info.Holders, func(h driver.Held) bool { return h.Lease == lease })
	if i < 0 {
		return nil, &driver.HeldError{Info: info}
	}
	return &info.Holders[i], nil
}
