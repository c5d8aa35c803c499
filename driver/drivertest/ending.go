// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// ending is a testing.TB whose clean-up is that of one attempt. An error that a late machine explains
// does not fail the test: the attempt is in vain.
type ending struct {
	testing.TB
	mu   sync.Mutex
	do   []func()
	late func() bool // whether the machine was late in this attempt; nil: no error is excused
	vain string      // the first error that was excused
}

func (t *ending) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.do = append(t.do, f)
}

// end runs the clean-up, once, also what comes after a function that fails.
func (t *ending) end() {
	t.mu.Lock()
	last := len(t.do) - 1
	if last < 0 {
		t.mu.Unlock()
		return
	}
	f := t.do[last]
	t.do = t.do[:last]
	t.mu.Unlock()
	defer t.end()
	f()
}

// excuse excuses errors from now on if late, and returns the first that was before.
func (t *ending) excuse(late func() bool) (vain string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	vain, t.vain, t.late = t.vain, "", late
	return vain
}

// excused reports whether text says that a lease was lost, or a request given up, on a machine that
// was late. Two holders, and tokens that do not grow, are no such error.
func (t *ending) excused(text string, args []any) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late == nil || !t.late() {
		return false
	}
	for _, a := range args {
		err, _ := a.(error)
		for _, gaveUp := range []error{driver.ErrUnavailable, driver.ErrUncertain, driver.ErrLost, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
			if errors.Is(err, gaveUp) {
				if t.vain == "" {
					t.vain = text
				}
				return true
			}
		}
	}
	return false
}

func (t *ending) Errorf(format string, args ...any) {
	t.Helper()
	if text := fmt.Sprintf(format, args...); !t.excused(text, args) {
		t.TB.Error(text)
	}
}

func (t *ending) Error(args ...any) {
	t.Helper()
	if !t.excused(fmt.Sprint(args...), args) {
		t.TB.Error(args...)
	}
}

// Fatalf ends the attempt if it excuses the error. Only the test's own goroutine may call it.
func (t *ending) Fatalf(format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if t.excused(text, args) {
		panic(tooLate{text})
	}
	t.TB.Fatal(text)
}

func (t *ending) Fatal(args ...any) {
	t.Helper()
	if t.excused(fmt.Sprint(args...), args) {
		panic(tooLate{fmt.Sprint(args...)})
	}
	t.TB.Fatal(args...)
}
