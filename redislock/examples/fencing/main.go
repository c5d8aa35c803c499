// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command fencing shows with real processes why a lock alone is not enough, and how a
// fencing token helps:
//
//	go run ./redislock/examples/fencing
//
// An HTTP service keeps an account. Two client processes each add 10 to it. They use a
// lock on the account, with a TTL of a second, in a Redis server that the program starts.
// SIGSTOP stops client 1 in the middle of its work until client 2 has finished. A garbage
// collector, a hypervisor or swapping may stop a process in the same way, and a slow
// network may delay a request in the same way.
//
// The story is from Martin Kleppmann ("How to do distributed locking", 2016). There the
// tokens are 33 and 34. Here a token is the time of Redis's clock in microseconds, so the
// second token is greater by the time between them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/pawl-go/pawl/redislock"
)

// acts are the ways to write, from the careless to the right one.
var acts = []struct {
	name  string
	title string
	want  int // the balance at the end
}{
	{"careless", "No fence, and client 1 writes without a look at its lease", 110},
	{"looks", "No fence, but client 1 looks at its lease before it writes", 120},
	{"late", "No fence; client 1 looks, and is stopped after that", 110},
	{"fenced", "A fence: the token goes with each request, and the service refuses old ones", 120},
}

func main() {
	if len(os.Args) > 1 {
		client(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
		return
	}
	if err := story(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

// story plays all acts and reports them to w.
func story(w io.Writer) error {
	redis, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	// A server that has just started is in quarantine, since it may have forgotten locks. No
	// client has used this one before, so Bless ends the quarantine.
	if err := redislock.Bless(context.Background(), redis, nil); err != nil {
		return err
	}
	fmt.Fprintf(w, "An account holds 100. Client 1 and client 2 add 10 each, under a lock with a TTL of %v.\n", ttl)
	for i, act := range acts {
		fmt.Fprintf(w, "\n%d. %s\n\n", i+1, act.title)
		balance, err := play(w, redis, act.name)
		if err != nil {
			return err
		}
		verdict := "right"
		if balance != 120 {
			verdict = "wrong: what client 2 has added is lost"
		}
		fmt.Fprintf(w, "    The account holds %d, which is %s.\n", balance, verdict)
		if balance != act.want {
			return fmt.Errorf("the account holds %d and not %d: this is not what the example shows", balance, act.want)
		}
	}
	return nil
}

// play plays one act and returns the balance at the end.
func play(w io.Writer, redis, act string) (int, error) {
	service, err := startService(act == "fenced")
	if err != nil {
		return 0, err
	}
	defer service.stop()

	one, err := startClient(w, act, "client 1", redis, service.url)
	if err != nil {
		return 0, err
	}
	defer one.kill()
	if err := one.stopInItsWork(); err != nil {
		return 0, err
	}
	two, err := startClient(w, act, "client 2", redis, service.url)
	if err != nil {
		return 0, err
	}
	defer two.kill()
	if err := two.end(); err != nil { // client 2 gets the lock when the lease of client 1 has ended
		return 0, err
	}
	if err := one.goOn(); err != nil {
		return 0, err
	}
	err = one.end()
	return service.balance(), err
}
