// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { programs["subject"] = subject }

// reign is what a leader has written down of one term: it led from first to last
// for certain, on the clock that all processes of the machine share. So two
// reigns that overlap were two leaders at a time, whatever the scheduler did.
type reign struct {
	who         string // the process
	token       uint64
	first, last int64 // nanoseconds of CLOCK_BOOTTIME
}

func (r reign) String() string {
	return fmt.Sprintf("%s with token %d from %v to %v", r.who, r.token, time.Duration(r.first), time.Duration(r.last))
}

// bootTime is the common clock.
func bootTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// diary is where a process writes its reigns: lines of 64 bytes, so that none of
// them crosses a page and kill -9 leaves no half of one.
type diary struct {
	f *os.File
	n int64
}

func openDiary(file string) *diary {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return &diary{f: f}
}

// lead writes down a reign for as long as leads returns true. The instant that is
// written was read before leads was asked: it led then.
func (d *diary) lead(token uint64, leads func() bool) {
	first := bootTime()
	for at := first; leads(); at = bootTime() {
		if _, err := d.f.WriteAt(fmt.Appendf(nil, "%20d %20d %20d \n", token, first, at), 64*d.n); err != nil {
			panic(err)
		}
		time.Sleep(time.Millisecond)
	}
	d.n++
}

// reigns reads all diaries in dir, in the order in which the reigns began.
func reigns(dir string) (all []reign) {
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			r := reign{who: filepath.Base(file)}
			if _, err := fmt.Sscan(line, &r.token, &r.first, &r.last); err == nil {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b reign) int { return int(a.first - b.first) })
	return all
}

// disorder returns what is wrong with reigns in the order of their beginning.
func disorder(all []reign) (wrong []string) {
	for i, r := range all[1:] {
		before := slices.MaxFunc(all[:i+1], func(a, b reign) int { return int(a.last - b.last) })
		if r.first <= before.last {
			wrong = append(wrong, fmt.Sprintf("two lead at a time: %v, and %v", before, r))
		}
		if r.token <= all[i].token {
			wrong = append(wrong, fmt.Sprintf("token %d after %d", r.token, all[i].token))
		}
	}
	return wrong
}

// subject is a command that "pawl elect" runs: subject DIARY.
func subject() {
	token, err := strconv.ParseUint(os.Getenv("PAWL_TOKEN"), 10, 64)
	if err != nil {
		panic(err)
	}
	openDiary(os.Args[1]+"-"+strconv.Itoa(os.Getpid())).lead(token, func() bool { return true })
}

// TestDisorder shows that elections can fail.
func TestDisorder(t *testing.T) {
	one := reign{"one", 1, 10, 20}
	for _, c := range []struct {
		next  reign
		wrong int
	}{{reign{"two", 2, 21, 30}, 0}, {reign{"two", 2, 20, 30}, 1}, {reign{"two", 1, 21, 30}, 1}, {reign{"two", 1, 15, 16}, 2}} {
		if got := disorder([]reign{one, c.next}); len(got) != c.wrong {
			t.Errorf("%v, %v: found %q; want %d faults", one, c.next, got, c.wrong)
		}
	}
}
