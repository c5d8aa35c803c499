// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/driver/drivertest"
)

const cert = "issue_cert_example.com"

func TestCertMagicLocker(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		c := &adapt.CertMagicLocker{Locks: w.locks, Prefix: "tls/"}
		theirs := w.take(t, "tls/"+cert)
		if ok, err := c.TryLock(background, cert); ok || err != nil {
			t.Errorf("TryLock = %v, %v of another's, want false, nil", ok, err)
		}
		wantIs(t, c.Unlock(background, cert), pawl.ErrReleased)
		if err := theirs.Err(); err != nil {
			t.Errorf("Unlock ended the lease of another: %v", err)
		}
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		wantIs(t, c.Lock(ctx, cert), context.DeadlineExceeded)

		time.AfterFunc(time.Minute, func() { theirs.Release(background) })
		if err := c.Lock(background, cert); err != nil { // waits
			t.Fatal(err)
		}
		if ok, err := c.TryLock(background, cert); ok || err != nil {
			t.Errorf("TryLock = %v, %v of our own, want false, nil", ok, err)
		}
		if ok, err := c.TryLock(background, "ari_1"); !ok || err != nil {
			t.Errorf("TryLock = %v, %v of a free name, want true, nil", ok, err)
		}
		for _, name := range []string{cert, "ari_1"} {
			w.wantHeld(t, "tls/"+name)
			if err := c.Unlock(background, name); err != nil {
				t.Error(err)
			}
			wantIs(t, c.Unlock(background, name), pawl.ErrReleased)
			w.wantFree(t, "tls/"+name)
		}

		w.link.Cut()
		wantIs(t, c.Lock(background, cert), pawl.ErrUnavailable)
		if ok, err := c.TryLock(background, cert); ok || err == nil {
			t.Errorf("TryLock = %v, %v in an outage", ok, err)
		}
	})
}

func TestCertMagicRenewal(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		c := &adapt.CertMagicLocker{Locks: w.locks}
		wantIs(t, c.RenewLockLease(background, cert, time.Hour), pawl.ErrReleased)
		if err := c.Lock(background, cert); err != nil {
			t.Fatal(err)
		}
		if err := c.RenewLockLease(background, cert, 6*time.Hour); err != nil {
			t.Error(err)
		}
		info, err := w.other.Inspect(background, cert)
		if err != nil || time.Until(info.Holders[0].Expires) > time.Minute {
			t.Errorf("it expires in %v (%v): others must not wait for hours for one that has crashed", time.Until(info.Holders[0].Expires), err)
		}

		w.breakLease(t, cert)
		theirs := w.take(t, cert)
		wantIs(t, c.RenewLockLease(background, cert, time.Hour), pawl.ErrLost, pawl.ErrHeld)
		if err := theirs.Err(); err != nil {
			t.Errorf("the lease of another: %v", err)
		}
		give(t, theirs)

		if err := c.RenewLockLease(background, cert, time.Hour); err != nil { // it is free again
			t.Error(err)
		}
		w.wantHeld(t, cert)
		if err := c.Unlock(background, cert); err != nil {
			t.Error(err)
		}
		w.wantFree(t, cert)

		if err := c.Lock(background, cert); err != nil {
			t.Fatal(err)
		}
		w.breakLease(t, cert)
		wantIs(t, c.Unlock(background, cert), pawl.ErrLost)
	})
}

// The lease that a renewal gets is of no use if the lock has been unlocked by then,
// and must not be left behind.
func TestCertMagicUnlockBesideARenewal(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		c := &adapt.CertMagicLocker{Locks: w.locks}
		if err := c.Lock(background, cert); err != nil {
			t.Fatal(err)
		}
		w.breakLease(t, cert)
		w.link.Add(drivertest.Rule{Op: drivertest.Ask, Effect: drivertest.SlowAfter, Delay: soon, Count: 1})
		renewed := make(chan error)
		go func() { renewed <- c.RenewLockLease(background, cert, time.Hour) }()
		synctest.Wait()
		next := make(chan error)
		go func() { next <- c.Lock(background, cert) }()
		synctest.Wait()
		wantIs(t, c.Unlock(background, cert), pawl.ErrLost)
		wantIs(t, <-renewed, pawl.ErrLost)
		if err := <-next; err != nil {
			t.Fatal(err)
		}
		if err := c.Unlock(background, cert); err != nil {
			t.Error(err)
		}
		w.wantFree(t, cert)
	})
}
