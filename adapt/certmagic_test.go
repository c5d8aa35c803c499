// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/adapt"
	"github.com/pawl-go/pawl/driver/drivertest"
)

const cert = "issue_cert_example.com"

func TestCertMagicTryLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		c := &adapt.CertMagicLocker{Locks: w.locks, Prefix: "tls/"}
		tries := func(name string, want bool, as error) {
			t.Helper()
			if ok, err := c.TryLock(background, name); ok != want || !errors.Is(err, as) {
				t.Errorf("TryLock(%q) = %v, %v, want %v, %v", name, ok, err, want, as)
			}
		}
		theirs := w.take(t, "tls/"+cert)
		tries(cert, false, nil)
		give(t, theirs)
		tries(cert, true, nil)
		w.wantHeld(t, "tls/"+cert)
		tries(cert, false, nil) // it is ours
		tries("ari_1", true, nil)
		wantIs(t, c.Unlock(background, cert), nil)
		w.wantFree(t, "tls/"+cert)
		w.link.Cut()
		tries(cert, false, pawl.ErrUnavailable)
	})
}

func TestCertMagicRenewal(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		c := &adapt.CertMagicLocker{Locks: w.locks}
		wantIs(t, c.RenewLockLease(background, cert, time.Hour), pawl.ErrReleased)
		wantIs(t, c.Lock(background, cert), nil)
		wantIs(t, c.RenewLockLease(background, cert, 6*time.Hour), nil)
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
		wantIs(t, c.Unlock(background, cert), nil)
		w.wantFree(t, cert)

		wantIs(t, c.Lock(background, cert), nil)
		w.breakLease(t, cert)
		wantIs(t, c.Unlock(background, cert), pawl.ErrLost)
	})
}

// The lease that a renewal gets is of no use if the lock has been unlocked by then,
// and must not be left behind.
func TestCertMagicUnlockBesideARenewal(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		c := &adapt.CertMagicLocker{Locks: w.locks}
		wantIs(t, c.Lock(background, cert), nil)
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
		wantIs(t, <-next, nil)
		wantIs(t, c.Unlock(background, cert), nil)
		w.wantFree(t, cert)
	})
}
