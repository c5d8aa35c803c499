// SPDX-License-Identifier: Apache-2.0

// Package wiretest is the conformance suite of stores. It checks what a driver.Store promises for each request
// and each event. The tests of package participant check, once for all stores, what a client does with that.
//
// A store runs the suite in a test:
//
//	func TestWire(t *testing.T) {
//		wiretest.Run(t, wiretest.Harness{
//			Start: func(t testing.TB) wiretest.Service {
//				return wiretest.Service{Open: func(t testing.TB) driver.Store { … }}
//			},
//		})
//	}
//
// The name of a check is a sentence of the contract. The suite skips checks of what a store does not promise. A
// golden file lists what runs and what is skipped, so that the test fails when a check no longer runs. Set
// DRIVERTEST_UPDATE=1 to write the file.
//
// No check fails because a machine is slow: what must happen has a minute on a real server, and what must not
// happen too early is checked by the clock of the client.
package wiretest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Harness tells Run how to reach the service under test. Start is required.
type Harness struct {
	// Start makes a service ready: a fresh one, or one shared by all checks, since each check uses names of
	// its own. A check that restarts the service has "restart" in its name.
	Start func(t testing.TB) Service

	// Bubble runs f in fake time: synctest.Test, for a service that lives in the process. Nil runs f directly.
	Bubble func(t *testing.T, f func(*testing.T))

	// TTL is the TTL of leases that expire during a check. The default is 30 s in a bubble, and 1 s without.
	TTL time.Duration

	// Long is the TTL of leases that must not expire during a check. The default is 10 minutes in a bubble,
	// and one minute without. Checks that restart the service use TTL.
	Long time.Duration

	// Recovery is how long a service may grant nothing after a restart. The default is 0.
	Recovery time.Duration

	// Parallel runs the checks in parallel. Restart and Cut must then not disturb other checks.
	Parallel bool

	// Except says why the store does not pass a check, by the name of the check. The golden file lists it as failed.
	Except map[string]string

	// Golden is the file that lists which checks run and which are skipped. The default is testdata/wire.txt.
	Golden string

	soon  time.Duration // how long something may take that takes no time
	pause time.Duration // how long to wait for what must not happen
}

// Service is the service under test. Open is required; checks whose hook is nil are skipped.
type Service struct {
	// Open returns a new participant, as in a process of its own. The check calls its Listen and its Close.
	Open func(t testing.TB) driver.Store

	// Crash ends a participant as SIGKILL ends its process.
	Crash func(t testing.TB, s driver.Store)

	// Restart stops the service, not its participants, and starts it again.
	Restart func(t testing.TB)

	// Cut loses everything that is sent between a participant and the service, without an error, until Heal.
	Cut, Heal func(t testing.TB, s driver.Store)

	// Late delivers r to the service as a request that s sent before it ended the lease, and that was delayed.
	// With compare-and-set it writes the record of r at the version that was read before the End.
	// Only Late tests End.Doubt.
	Late func(t testing.TB, s driver.Store, r *driver.Request)

	// Left lists what the service still has about names that begin with prefix. It leaves out what the service
	// keeps on purpose for a name without holders and waiters, such as the last token.
	Left func(t testing.TB, prefix string) []string
}

// Check is one promise of a driver.Store.
type Check struct {
	// Name is a sentence of the contract.
	Name string
	// Needs are the fields of driver.Caps and the hooks of Service that the check needs, or must not find if
	// the entry begins with "no ". Otherwise the check is skipped.
	Needs []string

	run func(*env)
}

// Checks is the suite.
var Checks = slices.Concat(askChecks, renewChecks, endChecks, queueChecks, eventChecks, kindChecks, downgradeChecks, keepChecks, showChecks, faultChecks, loadChecks)

// Run runs the suite as subtests of t and compares what was skipped with h.Golden.
func Run(t *testing.T, h Harness) {
	hp := h.withDefaults()
	rep := new(report)
	t.Cleanup(func() { rep.compare(t, hp.Golden) })
	for _, c := range Checks {
		t.Run(c.Name, func(t *testing.T) {
			if why := h.Except[c.Name]; why != "" {
				rep.fail(c.Name, why)
				t.Skip("the store does not pass this check: " + why)
			}
			if hp.Parallel {
				t.Parallel()
			}
			hp.Bubble(t, func(t *testing.T) {
				missing, has := hp.check(t, c)
				rep.add(c.Name, missing, has)
				if missing != "" {
					t.Skip("the store has " + missing)
				}
			})
		})
	}
}

// check runs one check. If it is skipped, missing says why.
func (h *Harness) check(t testing.TB, c Check) (missing string, has map[string]bool) {
	e := newEnv(t, h)
	has = e.has()
	for _, need := range c.Needs {
		if want, ok := wanted(need, has); !ok {
			return want, has
		}
	}
	c.run(e)
	return "", has
}

// wanted reports whether the store is as a check needs it. If not, missing says how it is.
func wanted(need string, has map[string]bool) (missing string, ok bool) {
	what, no := need, false
	if len(need) > 3 && need[:3] == "no " {
		what, no = need[3:], true
	}
	have, known := has[what]
	switch {
	case !known:
		panic("wiretest: unknown need " + need)
	case have == no && no:
		return what, false
	case have == no:
		return "no " + what, false
	}
	return "", true
}

// has returns what the store promises and can do, and the hooks of its service, by name.
func (e *env) has() map[string]bool {
	has := map[string]bool{
		"Crash": e.service.Crash != nil, "Restart": e.service.Restart != nil, "Late": e.service.Late != nil,
		"Cut": e.service.Cut != nil && e.service.Heal != nil, "Left": e.service.Left != nil,
	}
	fields(reflect.ValueOf(e.open().Caps()), has)
	return has
}

func fields(v reflect.Value, has map[string]bool) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			fields(f, has)
		case reflect.Bool:
			has[v.Type().Field(i).Name] = f.Bool()
		}
	}
}

func (h Harness) withDefaults() *Harness {
	if h.Start == nil {
		panic("wiretest: Harness.Start is nil")
	}
	set := func(d *time.Duration, bubble, real time.Duration) {
		if h.Bubble == nil {
			bubble = real
		}
		if *d == 0 {
			*d = bubble
		}
	}
	set(&h.TTL, 30*time.Second, time.Second)
	set(&h.Long, 10*time.Minute, time.Minute)
	set(&h.soon, 5*time.Millisecond, time.Minute)
	set(&h.pause, time.Millisecond, 100*time.Millisecond)
	if h.Bubble == nil {
		h.Bubble = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	if h.Golden == "" {
		h.Golden = "testdata/wire.txt"
	}
	return &h
}
