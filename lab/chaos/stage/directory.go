// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"os"
	"path/filepath"
)

// directory is a file store on this machine. Only its clients can fail.
type directory struct {
	Settings
	path string
}

func newDirectory(s Settings) (Topology, error) {
	d := &directory{s, filepath.Join(s.Dir, "locks")}
	return d, os.MkdirAll(d.path, 0o700)
}

func (d *directory) URL(int) string   { return "file://" + d.path }
func (d *directory) Direct() string   { return d.URL(0) }
func (d *directory) Guests() []Guest  { return guests(d.Settings, d.URL(0), d.URL(0)+"/elsewhere") }
func (d *directory) Heal() error      { return nil }
func (d *directory) Stop()            {}
func (d *directory) Promise() Promise { return Promise{Shared: true, Slots: true, Tokens: true} }

func (d *directory) Faults() []Fault {
	return []Fault{{Kind: "lock files deleted", Beyond: "files are deleted in the directory", Do: func(a *Act) error {
		paths, err := filepath.Glob(filepath.Join(d.path, "*.lock"))
		if err != nil || len(paths) == 0 {
			return err
		}
		return os.Remove(paths[a.Rand.IntN(len(paths))])
	}}}
}
