// SPDX-License-Identifier: Apache-2.0

package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestOfStore: an error that is of two kinds has the code of what the user can change.
func TestOfStore(t *testing.T) {
	denied := fmt.Errorf("%w: not yours: %w", pawl.ErrUnavailable, fs.ErrPermission)
	for _, c := range []struct {
		err   error
		store string
		code  int
		says  string // the end of the line
	}{
		{&driver.SlotsError{Held: 3, Wanted: 2}, "redis://h", Config, "; use --slots 3, or another name"},
		{fmt.Errorf("%w: %w", pawl.ErrUnavailable, pawl.ErrDisagree), "redis://h", Config, pawl.ErrDisagree.Error()},
		{&driver.HeldError{}, "redis://h", Busy, pawl.ErrHeld.Error()},
		{&driver.LostError{Reason: driver.Gone}, "redis://h", Lost, ""},
		{denied, "redis://h", Denied, "permission denied"},
		{denied, "file:///d", Denied, "; use a store of your own with --store file:///DIR, or see who owns file:///d"},
		{&driver.UnreadError{Name: "x", Err: errors.New("damaged")}, "file:///d", Unavailable, "damaged"},
		{fmt.Errorf("a bad name: %w", fs.ErrInvalid), "redis://h", Config, "; the store is redis://h"},
		{fmt.Errorf("no slots: %w", errors.ErrUnsupported), "redis://h", Config, "no slots; use another store: --store URL"},
		{context.DeadlineExceeded, "redis://h", Unavailable, "; the store is slow or down: check redis://h"},
		{errors.New("pawl: open: reset"), "redis://h", Unavailable, ": reset; check --store, which is redis://h"},
	} {
		f := OfStore(c.err, c.store)
		if f.Code != c.code || f.Kind != Kinds[c.code] || !strings.HasSuffix(f.Line(), c.says) || !strings.HasPrefix(f.Line(), "pawl: "+f.Kind+": ") {
			t.Errorf("%v: exit %d, %q; want exit %d and the end %q", c.err, f.Code, f.Line(), c.code, c.says)
		}
	}
}

// TestAs: a failure keeps its code on its way up, an error of the output is the system's, and all others are
// mistakes in the command line. Each is one line.
func TestAs(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err  error
		code int
		line string
	}{
		{fmt.Errorf("above: %w", Fail(Busy, "taken", "wait")), Busy, "pawl: busy: taken; wait"},
		{full, System, "pawl: system: " + full.Error() + "; check the disk with df -h, and where the output goes"},
		{errors.New("bad\nflag\n"), Misuse, "pawl: usage: bad flag; try: pawl --help"},
		{Fail(Nobody, "no hint", ""), Nobody, "pawl: nobody: no hint"},
		{Fail(Config, "did you mean this?", "the store is that"), Config, "pawl: config: did you mean this? the store is that"},
	} {
		if f := As(c.err); f.Code != c.code || f.Line() != c.line {
			t.Errorf("%v: exit %d, %q; want exit %d, %q", c.err, f.Code, f.Line(), c.code, c.line)
		}
	}
}
