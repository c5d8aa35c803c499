// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder is a testing.TB whose failures are noted and fail nothing, so that
// the suite can be tested: a check that cannot fail is worthless.
type recorder struct {
	testing.TB // the test that records; what is not overridden is its

	mu       sync.Mutex
	failed   bool
	log      []string
	cleanups []func()
}

// record runs f and its clean-up, and returns whether it failed and its log.
func record(t testing.TB, f func(testing.TB)) (failed bool, log []string) {
	r := &recorder{TB: t}
	r.do(func() { f(r) })
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		r.do(f)
	}
	return r.failed, r.log
}

// do runs f in a goroutine of its own, which FailNow ends.
func (r *recorder) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Helper() {}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Log(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintln(args...))
}

func (r *recorder) Logf(format string, args ...any) { r.Log(fmt.Sprintf(format, args...)) }

func (r *recorder) Error(args ...any) {
	r.Log(args...)
	r.Fail()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.Fail()
}

func (r *recorder) Fatal(args ...any) {
	r.Log(args...)
	r.FailNow()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Logf(format, args...)
	r.FailNow()
}

func TestRecorder(t *testing.T) {
	cleaned := 0
	failed, log := record(t, func(t testing.TB) {
		t.Cleanup(func() { cleaned++ })
		t.Cleanup(func() { t.Fatal("in clean-up") })
		t.Errorf("one %d", 1)
		t.Fatal("two")
		t.Error("three")
	})
	if want := "[one 1\n two\n in clean-up\n]"; !failed || cleaned != 1 || fmt.Sprint(log) != want {
		t.Errorf("failed %v, cleaned %d, log %q; want a failure, 1, %q", failed, cleaned, log, want)
	}
	if failed, log := record(t, func(t testing.TB) { t.Log("fine") }); failed || len(log) != 1 {
		t.Errorf("failed %v, log %q; want no failure and one line", failed, log)
	}
}
