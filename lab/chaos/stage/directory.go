// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"os"
	"path/filepath"
)

// newDirectory makes a file store on this machine. Only its clients can fail.
func newDirectory(s Settings) (*Topology, error) {
	path := filepath.Join(s.Dir, "locks")
	url := "file://" + path
	return &Topology{
		URL: func(int) string { return url }, Direct: url,
		Guests:  guests(s, url, url+"/elsewhere"),
		Promise: Promise{Shared: true, Slots: true, Tokens: true},
		Faults: []Fault{{Kind: "lock files deleted", Beyond: "files are deleted in the directory", Do: func(a *Act) error {
			paths, err := filepath.Glob(filepath.Join(path, "*.lock"))
			if err != nil || len(paths) == 0 {
				return err
			}
			return os.Remove(paths[a.Rand.IntN(len(paths))])
		}}},
	}, os.MkdirAll(path, 0o700)
}
