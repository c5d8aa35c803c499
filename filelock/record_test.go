// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-go/pawl/driver"
)

// overwrite puts text into the lock file of "deploy".
func overwrite(t *testing.T, s client, off int64, text string) {
	t.Helper()
	f, err := os.OpenFile(s.path("deploy", lockSuffix), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), off); err != nil {
		t.Fatal(err)
	}
}

// TestTornSlot: the slot that the machine was writing when it crashed does not
// count. Its token was not returned to anybody and may come again, unless a
// note tells that it was.
func TestTornSlot(t *testing.T) {
	stopClock(t)
	for torn := range noteSlot {
		for _, released := range []bool{true, false} {
			dir := t.TempDir()
			s := open(t, dir)
			first := acquire(t, s, "deploy")
			release(t, first)
			g := acquire(t, s, "deploy")
			release(t, g)
			last := g.Token()
			if !released {
				overwrite(t, s, noteSlot*slotSize, "?")
				if torn == 1 { // the newer one
					last = first.Token()
				}
			}
			overwrite(t, s, int64(torn*slotSize)+40, "torn")
			if g := acquire(t, open(t, dir), "deploy"); g.Token() != last+1 {
				t.Errorf("slot %d torn, released %v: token %d; want %d", torn, released, g.Token(), last+1)
			}
		}
	}
}

// stopClock leaves it to the lock file that tokens grow.
func stopClock(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_001)
	clock = func() time.Time { return now }
	t.Cleanup(func() { clock = time.Now })
}

// TestRestoredFile: an old lock file comes back from a backup, and no token comes again.
func TestRestoredFile(t *testing.T) {
	s := open(t, t.TempDir())
	release(t, acquire(t, s, "deploy"))
	old, err := os.ReadFile(s.path("deploy", lockSuffix))
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	for range 100 {
		g := acquire(t, s, "deploy")
		tokens, _ := g.Reserved()
		last = g.Token() + tokens
		release(t, g)
	}
	for uint64(time.Now().UnixMicro()) <= last+2*span { // no backup is as quick
		time.Sleep(time.Millisecond)
	}
	if err := os.WriteFile(s.path("deploy", lockSuffix), old, 0o600); err != nil {
		t.Fatal(err)
	}
	if g := acquire(t, s, "deploy"); g.Token() <= last {
		t.Errorf("token %d after the backup was restored; there was %d before", g.Token(), last)
	}
}

func TestDamagedFile(t *testing.T) {
	s := open(t, t.TempDir())
	release(t, acquire(t, s, "deploy"))
	last := acquire(t, s, "deploy")
	release(t, last)
	for i := range int64(slots) {
		overwrite(t, s, i*slotSize, "?")
	}
	_, err := s.TryAcquire(context.Background(), request("deploy"))
	if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, errCorrupt) || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("TryAcquire = %v; want that the file is damaged, and what to do", err)
	}
	os.Remove(s.path("deploy", lockSuffix))
	if g := acquire(t, s, "deploy"); g.Token() <= last.Token() {
		t.Errorf("token %d after %d in a deleted file; want a greater one", g.Token(), last.Token())
	}
}

// TestEmptyFiles: what a power cut leaves of a new file is no damage.
func TestEmptyFiles(t *testing.T) {
	for _, content := range []string{"", "\x00", strings.Repeat("\x00", slotSize)} {
		s := open(t, t.TempDir())
		if err := os.WriteFile(s.path("deploy", lockSuffix), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		release(t, acquire(t, s, "deploy"))
		release(t, acquire(t, s, "deploy"))
	}
}

// TestLargestRecord: the longest name and the worst texts fit into a slot.
func TestLargestRecord(t *testing.T) {
	worst := strings.Repeat("\u2028\"\\", 400)
	name := strings.Repeat(`"`, driver.MaxName)
	holder := driver.Holder{Who: worst, User: worst, Host: worst, Command: worst, PID: 1 << 30}
	rec := record{Name: name, Held: driver.Held{
		Holder: holder, Why: worst, Lease: strings.Repeat("\x01", maxLease), Token: maxToken, Acquired: time.Now(),
	}, Process: self()}
	slot := encodeRecord(rec)
	var back record
	if len(slot) != slotSize || !decodeSlot(slot, &back) || back.Name != name || back.Token != maxToken {
		t.Errorf("a slot of %d bytes came back as %+v", len(slot), back)
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Write(slot)
	if st, err := readState(f); err != nil || st.rec.Name != name {
		t.Errorf("readState = %+v, %v", st, err)
	}
}

func TestTruncate(t *testing.T) {
	for n := range 12 {
		s := truncate("aä日🔒", n)
		if len(s) > n || !utf8.ValidString(s) || !strings.HasPrefix("aä日🔒", s) {
			t.Errorf("truncate to %d = %q", n, s)
		}
	}
}

func TestLastToken(t *testing.T) {
	if n, err := nextToken(maxToken, 1); err == nil {
		t.Errorf("token %d after the last", n)
	}
	for _, c := range []struct {
		last   uint64
		micros int64
		want   uint64
	}{
		{0, 1000*span + 5, 1000*span + 5},    // the first has none reserved
		{0, 1000 * span, 1000*span + 1},      // nor then
		{10 * span, 1000 * span, 999 * span}, // the clock, less what is reserved
		{10*span + 3, 1001*span - 1, 999 * span},
		{10 * span, 12 * span, 11 * span},     // the reserved ones are left out
		{20*span + 3, 11 * span, 20*span + 4}, // the clock was set back
		{20 * span, 11 * span, 21*span + 1},
		{10 * span, 5, 11*span + 1},             // to 1970
		{10 * span, 11 * span, 11*span + 1},     // no time for reserved ones
		{10*span + 3, 11 * span, 10*span + 4},   // nor here
		{11*span - 1, 11*span + 5, 11*span + 1}, // and none that would look like it
	} {
		if n, err := nextToken(c.last, c.micros); n != c.want || err != nil {
			t.Errorf("after %d at %d: %d, %v; want %d", c.last, c.micros, n, err, c.want)
		}
	}
	if n, err := nextToken(10, math.MaxInt64); err != nil || n > maxToken {
		t.Errorf("token %d, %v; want none above %d, whatever the clock says", n, err, maxToken)
	}
	if n, err := nextToken(0, -5); err != nil || n != 1 {
		t.Errorf("first token %d, %v, before 1970; want 1", n, err)
	}
}

// FuzzReadState: no content of a file leads to anything but an error, and what
// is read can be written.
func FuzzReadState(f *testing.F) {
	slot := encodeRecord(record{Name: "x", Held: driver.Held{Token: 7}})
	f.Add(bytes.Repeat(slot, 2))
	f.Add(slot[:100])
	f.Add([]byte(magic + " 00000000 {}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		st, err := readState(bytes.NewReader(content))
		if empty := len(bytes.Trim(content[:min(len(content), slots*slotSize)], "\x00")) == 0; err == nil && st.last == 0 && !empty {
			t.Error("a damaged file passes for an empty one")
		}
	})
}

// TestNewFileGoesOn: a lock file is deleted, and made anew a moment later.
func TestNewFileGoesOn(t *testing.T) {
	for d := int64(2); d <= 127; d += 5 {
		for phase := range int64(span) {
			at := int64(1_700_000_000_000_000)/span*span + phase
			old, _ := nextToken(0, at)
			if anew, _ := nextToken(0, at+d); anew <= old+reservedAfter(old) {
				t.Errorf("phase %d: the old file had the tokens %d to %d; the new one, %d µs later, begins at %d",
					phase, old, old+reservedAfter(old), d, anew)
			}
		}
	}
}
