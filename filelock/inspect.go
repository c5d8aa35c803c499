// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

var _ driver.Inspector = (*store)(nil)

// Inspect implements driver.Inspector. It never takes the flock, not even for an
// instant, so it is in nobody's way.
func (s *store) Inspect(ctx context.Context, name string) (*driver.Info, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return s.look(name)
}

// List implements driver.Inspector.
func (s *store) List(ctx context.Context, prefix string) ([]*driver.Info, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, unavailable(err)
	}
	defer dir.Close()
	files, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, unavailable(err)
	}
	var infos []*driver.Info
	var damaged error
	taken := flocks()
	for _, file := range files {
		enc, ok := strings.CutSuffix(file, lockSuffix)
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := s.lookFile(enc, prefix, taken)
		switch {
		case errors.Is(err, errCorrupt):
			damaged = errors.Join(damaged, err)
		case err != nil:
			return nil, err
		}
		if info != nil {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b *driver.Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, damaged
}

// lookFile describes the name of a lock file, or returns nil if the name does
// not begin with prefix or has neither holder nor waiter. A damaged file is an
// error also then: nobody can have its name.
func (s *store) lookFile(enc, prefix string, taken map[string]int) (*driver.Info, error) {
	name, known := decode(enc)
	if known && !strings.HasPrefix(name, prefix) {
		return nil, nil
	}
	here, err := s.present(enc)
	if err != nil {
		return nil, unavailable(err)
	}
	if !here && !s.lined(enc) && len(s.members(enc)) == 0 {
		if _, err := s.read(enc); known && errors.Is(err, errCorrupt) {
			return nil, &driver.UnreadError{Name: name, Err: unavailable(err)}
		}
		if len(taken) == 0 || taken[lockKey(s.path(enc, lockSuffix))] == 0 {
			return nil, nil
		}
	}
	if !known {
		st, err := s.read(enc)
		name = st.rec.Name
		if err != nil || encode(name) != enc || !strings.HasPrefix(name, prefix) {
			return nil, nil // not ours, or its first record is being written
		}
	}
	info, err := s.look(name)
	if err != nil || len(info.Holders)+len(info.Waiters) == 0 {
		return nil, err
	}
	return info, nil
}

// held describes the holder of a record.
func (r record) held() driver.Held {
	h := r.Held
	h.Orphan = r.Process.dead()
	return h
}

// look describes a name. A record without presence is that of a holder who
// has crashed.
func (s *store) look(name string) (*driver.Info, error) {
	enc := encode(name)
	info := &driver.Info{Name: name, Holders: []driver.Held{}, Waiters: s.waiters(enc)}
	here, err := s.present(enc)
	if err != nil {
		return nil, unavailable(err)
	}
	st, err := s.read(enc)
	if errors.Is(err, fs.ErrNotExist) {
		return info, nil
	}
	if errors.Is(err, errCorrupt) {
		return nil, &driver.UnreadError{Name: name, Err: unavailable(err)}
	}
	if err != nil {
		return nil, unavailable(err)
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
	if len(info.Holders) == 0 {
		info.Holders = s.unknown(enc, here, st)
	}
	return info, nil
}

// unknown returns who has the lock although neither record nor presence says so: another program that
// took the flock, a holder whose record or FIFO somebody has deleted, or one who is about to write
// it. The lease has no id then.
func (s *store) unknown(enc string, here bool, st state) []driver.Held {
	pid := flocks()[lockKey(s.path(enc, lockSuffix))]
	switch {
	case pid != 0 && pid == st.rec.Process.PID && !st.released:
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
	f, err := openFile(s.path(enc, lockSuffix), os.O_RDONLY, 0)
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

// holding returns the holder of name whose lease has the given id. If there is
// none the error is a *HeldError, or ErrReleased if nobody holds the name.
func (s *store) holding(name, lease string) (*driver.Held, error) {
	info, err := s.look(name)
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
