// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func TestStep(t *testing.T) {
	const s = driver.Instant(time.Second)
	last := reading{sent: 10 * s, heard: 11 * s, at: time.Hour}
	for _, c := range []struct{ passed, want time.Duration }{
		{11 * time.Second, 0},
		{9 * time.Second, 0},          // the first was executed at once, the second at last
		{12 * time.Second, 0},         // the other way round
		{12100 * time.Millisecond, 0}, // and a clock that runs a little faster
		{13 * time.Second, time.Second},
		{8 * time.Second, -time.Second},
		{time.Hour, time.Hour - 12*time.Second},
		{-time.Hour, -time.Hour - 9*time.Second},
	} {
		if got := last.step(reading{sent: 20 * s, heard: 22 * s, at: time.Hour + c.passed}); got != c.want {
			t.Errorf("when %v have passed the clock was set by %v; want %v", c.passed, got, c.want)
		}
	}
}

// TestSaw: a step is seen once, though it hides in the allowance of each reading,
// and though answers come late or out of order.
func TestSaw(t *testing.T) {
	const ms = driver.Instant(time.Millisecond)
	told := 0
	var server clock
	see := func(sent, heard driver.Instant, at time.Duration) time.Duration {
		step, news := server.saw(1e15+sent, 1e15+heard, 1000*time.Hour+at)
		if news {
			told++
		}
		return step
	}
	for i := range 5000 { // one a millisecond
		at := driver.Instant(i) * ms
		if step := see(at, at+ms, time.Duration(at)); step != 0 {
			t.Fatalf("a clock that runs as it should was set by %v at %v", step, time.Duration(at))
		}
	}
	if step := see(5000*ms, 9000*ms, 5*time.Second); step != 0 { // the answer took long
		t.Errorf("a slow answer shows a step of %v", step)
	}
	if step := see(9000*ms, 9001*ms, 19*time.Second); step < 9*time.Second || step > 11*time.Second {
		t.Errorf("a step of 10 s is seen as %v", step)
	}
	if step := see(8000*ms, 9002*ms, 8*time.Second); step != 0 { // was under way before
		t.Errorf("an older answer shows a step of %v", step)
	}
	if step := see(9002*ms, 9003*ms, 19002*time.Millisecond); step != 0 {
		t.Errorf("the step is seen again, as %v", step)
	}
	if told != 1 {
		t.Errorf("it was told %d times; want once", told)
	}
	fast := time.Duration(0) // a clock that runs 5 % too fast
	for i := range 3000 {
		at := (10000 + driver.Instant(i)) * ms
		fast += see(at, at+ms, time.Duration(at)+10*time.Second+time.Duration(i)*time.Millisecond/20)
	}
	if fast < 50*time.Millisecond {
		t.Errorf("of 150 ms that a fast clock has gained, %v were seen", fast)
	}
}

// early is a store whose renewals return an answer that came earlier.
type early struct {
	*script
	answer driver.Renewal
}

func (e *early) Renew(context.Context, driver.Ref, time.Duration) (driver.Renewal, error) {
	return e.answer, nil
}

// TestEarlierAnswer: a term begins when the answer came, not when Renew returned it.
func TestEarlierAnswer(t *testing.T) {
	const ttl, ago, step = 10 * time.Second, 5 * time.Second, 6 * time.Second
	now, at := driver.Now(), 1000*time.Hour
	came := now.Add(-ago)
	s := &early{&script{ask: func(*driver.Request) (driver.Answer, error) { return driver.Answer{Granted: true}, nil }}, driver.Renewal{Since: came, Heard: came, Clock: driver.Clock{Sent: came, At: at}}}
	p := New(s, Options{})
	g := tried(t, p, ttl)
	if _, err := g.Renew(t.Context(), ttl); err != nil {
		t.Fatal(err)
	}
	p.saw(driver.Clock{Sent: now, At: at + ago + step}, now)
	if err := g.over(); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the server's clock was set forward by more than was left of the term: the lease has ended with %v", err)
	}
}
