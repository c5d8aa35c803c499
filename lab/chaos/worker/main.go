// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command worker uses the public API of pawl as any program would, and writes the answers
// to a diary. It writes each line with one write(2), so that kill -9 loses no earlier
// line. It does not judge the answers.
//
// All instants are nanoseconds of CLOCK_BOOTTIME, a clock that all processes of the
// machine share. The lines are
//
//	T open PID URL
//	T refused TEXT                  the client could not be opened
//	T ask N NAME KIND SLOTS HOW     HOW is try or wait
//	T grant N TOKEN LEASE           T is after the call has returned
//	T held N                        after T was read, Err() returned nil
//	T ended N TEXT                  Err() returned an error
//	T giving N                      before Release
//	T gave N TEXT                   after Release
//	T failed N TEXT                 the call has returned an error
//	T closed TEXT                   the client was closed
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-go/pawl"
)

type worker struct {
	diary  *diary
	client *pawl.Client
	names  []string
	space  string // prefix for names in the diary: a client with another prefix or pattern locks other keys
	store  string
	pawl   string // the command; if set, the worker opens no client
	ttl    time.Duration
	hold   time.Duration
	wait   time.Duration
	next   atomic.Int64

	insists bool // ask again if the store has not answered
}

func main() {
	log.SetFlags(0)
	var w worker
	flag.StringVar(&w.store, "store", "", "URL of the store")
	flag.StringVar(&w.pawl, "pawl", "", "use this command, and not the library")
	mine := flag.Int64("child", 0, "be the command that pawl runs, for this claim")
	linger := flag.Duration("linger", 0, "leave something running for so much longer")
	away := flag.Bool("away", false, "in a session of its own, without an environment")
	path := flag.String("log", "", "file that lines are appended to")
	names := flag.String("names", "one-0", "names, with commas; what is before the dash is the kind: one, rw, slot")
	seed := flag.Uint64("seed", 1, "of what is drawn")
	lanes := flag.Int("lanes", 2, "goroutines")
	wall := flag.Duration("wall", 0, "how far this client's wall clock is ahead (redlock)")
	flag.StringVar(&w.space, "space", "", "written before names, of a client with a prefix of its own")
	probe := flag.Bool("probe", false, "ask for every name once, for itself alone, and end")
	patience := flag.Duration("patience", 0, "for so long, with -probe")
	verbose := flag.Bool("v", false, "write what the client logs to standard error")
	flag.DurationVar(&w.ttl, "ttl", 2*time.Second, "TTL")
	flag.DurationVar(&w.hold, "hold", 30*time.Millisecond, "how long a lease is kept, most of the time")
	flag.DurationVar(&w.wait, "wait", 20*time.Second, "the longest patience of a wait")
	flag.Parse()
	w.names = strings.Split(*names, ",")
	var err error
	if w.diary, err = openDiary(*path); err != nil {
		log.Fatal(err)
	}
	if *mine != 0 {
		child(w.diary, *mine, w.hold, *linger, *away)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if w.pawl == "" {
		if w.client = w.open(ctx, w.store, *wall, *verbose); w.client == nil {
			return
		}
		defer func() { w.diary.write(now(), "closed %s", text(w.client.Close())) }()
	}
	if *probe {
		w.probe(ctx, *patience)
	} else {
		var all sync.WaitGroup
		for i := range *lanes {
			all.Go(func() { w.lane(ctx, rand.New(rand.NewPCG(*seed, uint64(i)))) })
		}
		all.Wait()
	}
}

// open opens the client. It repeats that until it succeeds, because the store may be unavailable.
func (w *worker) open(ctx context.Context, url string, wall time.Duration, verbose bool) *pawl.Client {
	for ctx.Err() == nil {
		client, err := openStore(ctx, url, w.ttl, wall, verbose)
		if err == nil {
			w.diary.write(now(), "open %d %s", os.Getpid(), url)
			return client
		}
		w.diary.write(now(), "refused %s", text(err))
		pause(ctx, 200*time.Millisecond)
	}
	return nil
}

func (w *worker) lane(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		name := w.names[r.IntN(len(w.names))]
		kind, slots, opts := draw(name, r)
		patience := time.Duration(0)
		if r.IntN(4) > 0 {
			patience = w.wait/100 + time.Duration(r.Int64N(int64(w.wait)))
		}
		long := r.IntN(20) == 0
		hold := time.Duration(r.Int64N(int64(w.hold)))
		if long {
			hold = time.Duration(r.Int64N(int64(3 * w.ttl)))
		}
		got := false
		if w.pawl != "" {
			got = w.command(ctx, r, name, kind, slots, patience, hold)
		} else {
			got = w.turn(ctx, name, kind, slots, patience, hold, opts)
		}
		if !got {
			pause(ctx, time.Duration(r.Int64N(int64(100*time.Millisecond))))
		}
	}
}

// draw returns the kind of lease to ask for. It depends on the name, so that no worker asks
// for another number of slots than the others.
func draw(name string, r *rand.Rand) (kind string, slots int, opts []pawl.Option) {
	if r.IntN(10) == 0 {
		opts = append(opts, pawl.NoRenew())
	}
	family, _, _ := strings.Cut(name, "-")
	switch {
	case family == "rw" && r.IntN(3) > 0:
		return "shared", 0, append(opts, pawl.Shared())
	case family == "slot":
		return "slots", 2, append(opts, pawl.Slots(2))
	}
	return "alone", 0, opts
}

// turn asks for a name, and holds the lease for a while if it gets one. It reports whether it got one.
func (w *worker) turn(ctx context.Context, name, kind string, slots int, patience, hold time.Duration, opts []pawl.Option) bool {
	n := w.next.Add(1)
	how := "try"
	if patience > 0 {
		how = "wait"
	}
	w.diary.write(now(), "ask %d %s%s %s %d %s", n, w.space, name, kind, slots, how)
	lease, err := w.acquire(ctx, name, patience, opts)
	if err != nil {
		w.diary.write(now(), "failed %d %s", n, text(err))
		return false
	}
	w.diary.write(now(), "grant %d %d %s", n, lease.Token(), lease.ID())
	w.keep(ctx, n, lease, hold)
	w.diary.write(now(), "giving %d", n)
	w.diary.write(now(), "gave %d %s", n, text(lease.Release(context.Background())))
	return true
}

func (w *worker) acquire(ctx context.Context, name string, patience time.Duration, opts []pawl.Option) (*pawl.Lease, error) {
	if patience == 0 {
		lease, err := w.client.TryAcquire(ctx, name, opts...)
		for range 50 {
			if !w.insists || !errors.Is(err, pawl.ErrUncertain) && !errors.Is(err, pawl.ErrUnavailable) {
				break
			}
			pause(ctx, 100*time.Millisecond)
			lease, err = w.client.TryAcquire(ctx, name, opts...)
		}
		return lease, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.client.Acquire(ctx, name, opts...)
}

// keep looks at the lease again and again, until hold is over or the lease has ended. It reads the clock before it
// calls Err: if Err returns nil, the worker believed in the lease at that instant.
func (w *worker) keep(ctx context.Context, n int64, lease *pawl.Lease, hold time.Duration) {
	for end := now() + int64(hold); ; pause(ctx, 3*time.Millisecond) {
		t := now()
		if err := lease.Err(); err != nil {
			w.diary.write(now(), "ended %d %s", n, text(err))
			return
		}
		w.diary.write(t, "held %d", n)
		if t >= end || ctx.Err() != nil {
			return
		}
	}
}

// probe asks for every name once, while no other client runs. If the store does not answer, it asks again, because a
// busy machine may take longer than a timeout.
func (w *worker) probe(ctx context.Context, patience time.Duration) {
	w.insists = true
	for _, name := range w.names {
		var opts []pawl.Option
		kind, slots := "alone", 0
		if strings.HasPrefix(name, "slot-") { // with the same number of slots as the workers
			kind, slots, opts = "slots", 2, []pawl.Option{pawl.Slots(2)}
		}
		w.turn(ctx, name, kind, slots, patience, 0, opts)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// text returns an error in one line.
func text(err error) string {
	if err == nil {
		return "-"
	}
	return strings.ReplaceAll(fmt.Sprint(err), "\n", " | ")
}
