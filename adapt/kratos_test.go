// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
)

func TestKratosServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		var led atomic.Int32
		lead := func(ctx context.Context, _ *pawl.Lease) error {
			led.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		theirs := w.take(t, "a")
		s := &adapt.KratosServer{Locks: w.locks, Name: "a", Lead: lead}
		ended := make(chan error, 1)
		go func() { ended <- s.Start(background) }()
		time.Sleep(time.Minute)
		if led.Load() > 0 {
			t.Error("it leads while another does")
		}
		give(t, theirs)
		synctest.Wait()
		w.breakLease(t, "a")
		time.Sleep(time.Minute)
		if n := led.Load(); n != 2 {
			t.Errorf("it has led %d times, want again after a loss", n)
		}
		if s.Start(background) == nil {
			t.Error("it is started twice")
		}
		wantIs(t, s.Stop(background), nil)
		w.wantFree(t, "a")
		if err := <-ended; err != nil {
			t.Errorf("Start = %v after Stop", err)
		}
	})
}

func TestKratosServerEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		full := errors.New("disk full")
		s := &adapt.KratosServer{Locks: w.locks, Name: "a", Lead: func(context.Context, *pawl.Lease) error { return full }}
		wantIs(t, s.Start(background), full)
		w.wantFree(t, "a")
		wantIs(t, s.Stop(background), nil)

		// Stop may come first, and does not wait for longer than it is told.
		s = &adapt.KratosServer{Locks: w.locks, Name: "a", Lead: func(context.Context, *pawl.Lease) error { return full }}
		wantIs(t, s.Stop(background), nil)
		if err := s.Start(background); err != nil {
			t.Errorf("Start after Stop = %v", err)
		}
		s = &adapt.KratosServer{Locks: w.locks, Name: "a", Lead: func(context.Context, *pawl.Lease) error {
			time.Sleep(time.Hour)
			return nil
		}}
		go s.Start(background)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		wantIs(t, s.Stop(ctx), context.DeadlineExceeded)
		time.Sleep(time.Hour)
	})
}
