// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock"
)

func init() { programs["candidate"], programs["subject"] = candidate, subject }

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

// candidate is a process that stands for election until it is killed:
//
//	candidate STORE TTL DIARY [cut|blind]
//
// With cut no renewal reaches the store (Redis only), and with blind it does not
// look at the time either.
func candidate() {
	ttl, err := time.ParseDuration(os.Args[2])
	var locks *pawl.Client
	if err == nil {
		opts := &pawl.Options{TTL: ttl}
		if len(os.Args) > 4 {
			locks, err = openCut(os.Args[1], os.Args[4] == "blind", opts)
		} else {
			var s *stores.Store
			if s, err = stores.Open(os.Args[1], time.Minute, opts, true); err == nil {
				locks = s.Client
			}
		}
	}
	if err == nil {
		d := openDiary(os.Args[3])
		err = locks.Elect(context.Background(), "boss", func(_ context.Context, lease *pawl.Lease) error {
			d.lead(uint64(lease.Token()), func() bool { return lease.Err() == nil })
			return nil
		})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// subject is a command that "pawl elect" runs: subject DIARY.
func subject() {
	token, err := strconv.ParseUint(os.Getenv("PAWL_TOKEN"), 10, 64)
	if err != nil {
		panic(err)
	}
	openDiary(os.Args[1]+"-"+strconv.Itoa(os.Getpid())).lead(token, func() bool { return true })
}

func openCut(url string, blind bool, opts *pawl.Options) (*pawl.Client, error) {
	d, err := redislock.NewStore(context.Background(), url, &redislock.Options{Options: *opts})
	if err != nil {
		return nil, err
	}
	return pawl.New(&cutOff{d, blind}, opts)
}

// cutOff is a store that renewals do not reach, and of which nothing is heard.
type cutOff struct {
	driver.Store
	blind bool
}

func (d *cutOff) Ask(ctx context.Context, req *driver.Request) (driver.Answer, error) {
	ans, err := d.Store.Ask(ctx, req)
	return d.changed(ans), err
}

func (d *cutOff) Listen(f func(driver.Event)) {
	d.Store.Listen(func(e driver.Event) {
		if e.Kind == driver.Granted || e.Kind == driver.Look {
			e.Grant = d.changed(e.Grant)
			f(e)
		}
	})
}

func (d *cutOff) changed(ans driver.Answer) driver.Answer {
	if d.blind && ans.Token > 0 {
		ans.Since = driver.Now().Add(time.Hour) // so that the trust does not end
	}
	return ans
}

func (d *cutOff) Renew(context.Context, driver.Ref, time.Duration) (driver.Renewal, error) {
	return driver.Renewal{}, driver.ErrUnavailable
}
