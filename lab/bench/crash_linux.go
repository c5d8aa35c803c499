// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	crashTTL = 2 * time.Second
	victims  = 3 // locks of the process that is killed
)

// crash kills a process that holds locks, while another process waits for them. If Redis has the
// lock, it measures the time from the end of the TTL to the next holder; otherwise the time
// from the kill.
func (r *run) crash(contender, name string) (*sample, error) {
	holder, err := spawn(&task{Do: "hold", World: r.world, Contender: contender, Name: name, N: victims})
	if err != nil {
		return nil, err
	}
	defer holder.kill()
	waiter, err := spawn(&task{Do: "wait", World: r.world, Contender: contender, Name: name, N: victims})
	if err != nil {
		return nil, err
	}
	defer waiter.kill()
	var ready string
	if err := errors.Join(holder.hear(&ready), waiter.hear(&ready)); err != nil {
		return nil, err
	}
	waiter.tell()
	// Let the waiters queue up, and some holders renew.
	time.Sleep(r.cell)
	holder.kill()
	killed := nano()
	ends := make([]int64, victims)
	for i := range ends {
		ends[i] = killed
		if key := contenders[contender].key; key != nil {
			left, err := r.left(key(name + "-" + strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			ends[i] = nano() + int64(left)
		}
	}
	var got []int64
	if err := waiter.hear(&got); err != nil {
		return nil, err
	}
	s := &sample{Extra: map[string]float64{}, Elapsed: crashTTL}
	for i, at := range got {
		if at < killed {
			return nil, fmt.Errorf("a waiter had the lock %v before its holder was killed", time.Duration(killed-at))
		}
		// The server rounds to milliseconds.
		if at < ends[i]-int64(5*time.Millisecond) {
			return nil, fmt.Errorf("a waiter had the lock %v before the TTL ended", time.Duration(ends[i]-at))
		}
		late := max(at-ends[i], 0)
		s.Times.add(late)
		s.Longest = max(s.Longest, late)
		s.Extra["kill to acquire, ms"] += float64(at-killed) / 1e6 / victims
	}
	s.Times.pack()
	return s, nil
}

// left returns how long Redis will keep a lock, in whole milliseconds.
func (r *run) left(key string) (time.Duration, error) {
	text, err := command(r.world.Redis[0], "PTTL", key)
	if err != nil {
		return 0, err
	}
	left, err := strconv.ParseInt(text, 10, 64)
	if err != nil || left < 0 {
		return 0, fmt.Errorf("%s is not held when its holder dies", key)
	}
	return time.Duration(left) * time.Millisecond, nil
}

// hold takes locks and keeps them until it is killed.
func (t *task) hold() error {
	l, err := t.open()
	if err != nil {
		return err
	}
	for i := range t.N {
		if _, _, err := l.lock(context.Background(), t.Name+"-"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	if err := say("held"); err != nil {
		return err
	}
	return told() // until the parent process ends or kills us
}

// wait acquires the same locks, and tells when it got each.
func (t *task) wait() error {
	l, err := t.open()
	if err != nil {
		return err
	}
	if err := errors.Join(say("ready"), told()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(4*crashTTL, cancel).Stop()
	got, errs := make([]int64, t.N), make(chan error, t.N)
	for i := range got {
		go func() {
			_, _, err := l.lock(ctx, t.Name+"-"+strconv.Itoa(i))
			got[i] = nano()
			errs <- err
		}()
	}
	for range got {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	return say(got)
}

func (t *task) open() (locker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	return contenders[t.Contender].open(ctx, t.World, seat{0, 1})
}
