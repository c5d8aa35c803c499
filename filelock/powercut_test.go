// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filelock

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is what a power cut may leave of a lock file: in each slot what was last
// made durable, what was written since, or a mixture.
type disk struct {
	t       *testing.T
	s       client
	probe   *os.File
	durable []byte
	largest uint64 // token that was returned
}

func (d *disk) cached() []byte {
	image := make([]byte, slots*slotSize)
	content, err := os.ReadFile(d.s.path("deploy", lockSuffix))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	copy(image, content)
	return image
}

// check cuts the power in every way, and returns what the disk has after one.
func (d *disk) check() (picked []byte) {
	d.t.Helper()
	cached := d.cached()
	pick := rand.N(27)
	for ways := range 3 * 3 * 3 {
		image := bytes.Clone(d.durable)
		for i, way := 0, ways; i < slots; i, way = i+1, way/3 {
			part := image[i*slotSize : (i+1)*slotSize]
			new := cached[i*slotSize : (i+1)*slotSize]
			switch way % 3 {
			case 1:
				copy(part, new)
			case 2:
				copy(part[:20+rand.N(300)], new)
			}
		}
		if _, err := d.probe.WriteAt(image, 0); err != nil {
			d.t.Fatal(err)
		}
		st, err := readState(d.probe)
		if err == nil && st.last < d.largest || err != nil && !errors.Is(err, errCorrupt) {
			d.t.Fatalf("after a power cut the largest token is %d, %v; %d was returned", st.last, err, d.largest)
		}
		if ways == pick && err == nil {
			picked = image
		}
	}
	return picked
}

// cut cuts the power for good: the machine starts again with what the disk has.
func (d *disk) cut() {
	if image := d.check(); image != nil {
		if err := os.WriteFile(d.s.path("deploy", lockSuffix), image, 0o600); err != nil {
			d.t.Fatal(err)
		}
		d.durable = image
	}
}

// TestPowerCut: in a history of grants, releases, kills and failures of the disk,
// no power cut at any moment makes a token come again.
func TestPowerCut(t *testing.T) {
	stopClock(t)
	d := &disk{t: t, s: open(t, memoryDir(t)), durable: make([]byte, slots*slotSize)}
	var err error
	if d.probe, err = os.Create(filepath.Join(memoryDir(t), "probe")); err != nil {
		t.Fatal(err)
	}
	defer d.probe.Close()
	type killed struct{}
	var fate int
	fdatasync = func(int) error {
		d.check()
		switch fate {
		case 0:
			panic(killed{})
		case 1:
			return unix.EIO
		}
		d.durable = d.cached()
		return nil
	}
	defer func() { fdatasync = unix.Fdatasync }()
	var corrupt int
	for range 400 {
		fate = rand.N(8)
		func() {
			defer func() {
				if r := recover(); r != nil {
					if _, ok := r.(killed); !ok {
						panic(r)
					}
					unlockAll(t, d.s.path("deploy", lockSuffix))
				}
			}()
			g, err := d.s.TryAcquire(context.Background(), request("deploy"))
			if errors.Is(err, errCorrupt) {
				corrupt++
			}
			if err != nil {
				return
			}
			d.largest = g.Token()
			d.check()
			if fate == 4 {
				g.Files()
				d.check()
			}
			if fate == 2 || fate == 4 {
				d.s.hold(g).close() // killed while it holds, with its child
			} else {
				release(t, g)
			}
			d.check()
		}()
		if fate == 3 || rand.N(10) == 0 {
			d.cut()
		}
	}
	if d.largest == 0 || corrupt > 0 {
		t.Errorf("largest token %d; %d times the file was damaged without a power cut", d.largest, corrupt)
	}
}

// unlockAll does for a holder that a panic has "killed" what the kernel does.
func unlockAll(t *testing.T, path string) {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if open, _ := os.Readlink("/proc/self/fd/" + name.Name()); open == path {
			fd, _ := strconv.Atoi(name.Name())
			unix.Flock(fd, unix.LOCK_UN)
		}
	}
}
