// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-go/pawl/fence"
)

// States are files in a directory, which no two write at a time.
type States struct {
	dir   string
	guard *fence.Dir
}

// OpenStates returns the states in an existing directory.
func OpenStates(dir string) (*States, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	guard, err := fence.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &States{dir, guard}, nil
}

func (s *States) file(name string) string { return filepath.Join(s.dir, name+".tfstate") }

// read returns nil if there is no such state.
func (s *States) read(name string) ([]byte, error) {
	state, err := os.ReadFile(s.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return state, err
}

// write returns when the state is on the disk. Whatever happens, the file has the old one or
// the new one. There is one writer.
func (s *States) write(name string, state []byte) error {
	file := s.file(name)
	if err := os.Remove(file + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it has secrets
	if err != nil {
		return err
	}
	if _, err = f.Write(state); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	return s.sync()
}

func (s *States) remove(name string) error {
	if err := os.Remove(s.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.sync()
}

// sync returns when the names of the files are on the disk.
func (s *States) sync() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
