// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// TestBusyNodesAreNotSilent: nodes that take longer for one request than they may be silent, as they
// have so many to answer, lose no lease and refuse none.
func TestBusyNodesAreNotSilent(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		d.gate.room = maxRoom
		mine := try(t, d)
		for _, m := range all {
			m.oneByOne(20 * time.Millisecond)
		}
		var wait sync.WaitGroup
		for i := range maxRoom {
			wait.Go(func() {
				req := ownName(i)
				req.TTL = 10 * time.Second
				if _, err := d.TryAcquire(t.Context(), req); err != nil {
					t.Errorf("TryAcquire = %v", err)
				}
			})
		}
		synctest.Wait()
		began := driver.Now()
		renew(t, mine, 10*time.Second)
		if took := driver.Now().Sub(began); took < 2*silence {
			t.Errorf("a renewal took %v; want more than nodes may be silent", took)
		}
		wait.Wait()
	})
}

// stall makes nodes answer all requests of a time at its end.
func stall(all []*master, until time.Time) {
	for _, m := range all {
		m.set(func(string) fault { return fault{before: time.Until(until)} })
	}
}

// TestStall: nodes that answer nothing for a while have the renewals when it is over, whatever else
// was asked of them meanwhile, and Acquire goes on.
func TestStall(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		mine := try(t, d)
		const long = 3 * silence
		stall(all, time.Now().Add(long))
		var wait sync.WaitGroup
		for i := range 4 * silentBusy {
			wait.Go(func() {
				time.Sleep(time.Duration(i) * silence / 4)
				req := ownName(i)
				req.TTL = 10 * time.Second
				if g, err := d.Acquire(t.Context(), req); err != nil || g.Release(t.Context()) != nil {
					t.Errorf("Acquire = %v, %v", g, err)
				}
			})
		}
		time.Sleep(long - silence/2)
		if !d.members[0].quiet() {
			t.Error("a node that has answered nothing for so long is not silent")
		}
		renew(t, mine, 10*time.Second)
		wait.Wait()
	})
}

// TestPaceAtSilentNodes: a caller that tries again and again while a majority is silent asks the others no more often
// than a node may be silent.
func TestPaceAtSilentNodes(t *testing.T) {
	withStore(t, 5, func(t *testing.T, all []*master, d *store) {
		setAll(all[2:], always(fault{lost: true}))
		const long = 20 * silence
		tries := 0
		for end := driver.Now().Add(long); driver.Now() < end && tries <= int(long/silence); tries++ {
			req := request()
			if g, err := d.TryAcquire(t.Context(), req); err == nil {
				t.Fatalf("TryAcquire = %v", g)
			}
		}
		if tries > int(long/silence) {
			t.Fatalf("%d attempts in less than %v", tries, long)
		}
		ctx, cancel := context.WithTimeout(t.Context(), silence/4)
		defer cancel()
		if _, err := d.TryAcquire(ctx, request()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryAcquire = %v; want the context's error", err)
		}
	})
}

// newOn returns a pawl client on masters.
func newOn(ctx context.Context, all []*master, opts *Options) (*pawl.Client, error) {
	d, err := newStore(ctx, nodes(all), opts)
	if err != nil {
		return nil, err
	}
	return newClient(d, opts)
}

// TestRenewalOverALongWay: a lease lives as long as its renewals are answered within a third of the TTL, also if
// that begins at once, and Acquire learns how far away the nodes are.
func TestRenewalOverALongWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		defer time.Sleep(time.Minute) // what is still under way ends
		locks, err := newOn(t.Context(), all, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		lease, err := locks.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		far(all, pawl.DefaultTTL/3-time.Second)
		time.Sleep(5 * pawl.DefaultTTL)
		if err := lease.Err(); err != nil {
			t.Error(err)
		}
		other, err := locks.Acquire(t.Context(), name+"2")
		if err != nil {
			t.Fatal(err)
		}
		far(all, 0)
		other.Release(t.Context())
		lease.Release(t.Context())
	})
}

// TestOverloadOfSlowNodes: nodes that carry out 50 requests a second, one after the other, and 200 goroutines that lock
// names of their own: no lease of the client is lost, and all get theirs.
func TestOverloadOfSlowNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := masters(5)
		defer time.Sleep(time.Minute) // what is still under way ends
		opts := &Options{}
		opts.TTL = 3 * time.Second
		locks, err := newOn(t.Context(), all, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		var held []*pawl.Lease
		for i := range 10 {
			lease, err := locks.Acquire(t.Context(), fmt.Sprint("held-", i))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, lease)
		}
		for _, m := range all {
			m.oneByOne(20 * time.Millisecond)
		}
		began := driver.Now()
		var wait sync.WaitGroup
		for i := range 200 {
			wait.Go(func() {
				lease, err := locks.Acquire(t.Context(), fmt.Sprint("own-", i))
				if err == nil {
					err = lease.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		t.Logf("it took %v", driver.Now().Sub(began))
		for _, lease := range held {
			if err := lease.Err(); err != nil {
				t.Error(err)
			}
			lease.Release(t.Context())
		}
	})
}

// TestNeverAnswered: a participant that no quorum has ever answered gives up when connections are refused, or
// after the connect timeout.
func TestNeverAnswered(t *testing.T) {
	for after, f := range map[time.Duration]fault{0: {refused: true}, 5 * time.Second: {lost: true}} {
		withStore(t, 3, func(t *testing.T, all []*master, d *store) {
			locks, err := pawl.New(d, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			setAll(all, always(f))
			began := driver.Now()
			_, err = locks.Acquire(t.Context(), name)
			if !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, pawl.ErrUncertain) {
				t.Errorf("Acquire = %v; want an error of nodes that do not answer", err)
			}
			if took := driver.Now().Sub(began); took < after || took > after+lookEvery+silence {
				t.Errorf("Acquire took %v; want about %v", took, after)
			}
			setAll(all, nil)
		})
	}
}

// TestStoppedProcess: a process that was stopped takes no node for silent before it has read what they answered
// meanwhile.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, masters(3), nil)
		m := d.members[0]
		each := d.together(1, 10*time.Second, false)
		gone, answer := make(chan error, 1), make(chan struct{})
		send(m, each, func(context.Context) (int, error) {
			<-answer
			return 0, nil
		}, func(_ int, err error) { gone <- err })
		synctest.Wait()
		back := driver.Instant(time.Minute)
		m.mu.Lock()
		m.owes.since = m.owes.since - back
		m.mu.Unlock()
		each.mu.Lock()
		each.looked, each.end = each.looked-back, each.end+back
		each.mu.Unlock()
		each.look()
		if m.quiet() || len(gone) > 0 {
			t.Error("a node is given up as soon as the process goes on")
		}
		time.Sleep(silence)
		if err := <-gone; err != errSilent {
			t.Errorf("the request ended with %v; want that the node is silent", err)
		}
		if !m.quiet() {
			t.Error("a node that has answered nothing for so long is not silent")
		}
		close(answer)
		synctest.Wait()
		if m.quiet() {
			t.Error("a node that has answered is silent")
		}
	})
}

// TestRoomFollowsTheNodes: where rounds take long fewer calls are under way at a time, and more again when they
// are short.
func TestRoomFollowsTheNodes(t *testing.T) {
	withStore(t, 3, func(t *testing.T, all []*master, d *store) {
		room := func() int {
			d.gate.mu.Lock()
			defer d.gate.mu.Unlock()
			return d.gate.room
		}
		d.gate.room = maxRoom
		far(all, silence*3/4)
		many(t, d, maxRoom, 30*time.Second)
		if n := room(); n != maxRoom/2 {
			t.Errorf("after one slow round of each there is room for %d; want half of %d", n, maxRoom)
		}
		for range 6 {
			try(t, d).Release(t.Context())
		}
		if n := room(); n != minRoom {
			t.Errorf("after many slow rounds there is room for %d; want %d", n, minRoom)
		}
		far(all, 0)
		for range 4000 {
			try(t, d).Release(t.Context())
		}
		if n := room(); n != maxRoom {
			t.Errorf("after many short rounds there is room for %d; want %d", n, maxRoom)
		}
	})
}
