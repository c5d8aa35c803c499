// SPDX-License-Identifier: Apache-2.0

//go:build unix

package apitest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

const pausedTTL = 300 * time.Millisecond

func TestMain(m *testing.M) {
	switch os.Getenv("PAWL_TEST_PAUSED") {
	case "holder":
		pausedHolder()
		os.Exit(0)
	case "dial":
		pausedDial()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// pausedHolder holds a lease, prints that, and checks it once more on demand.
func pausedHolder() {
	locks, err := memlock.Open(&pawl.Options{TTL: pausedTTL})
	if err != nil {
		panic(err)
	}
	lease, err := locks.Acquire(context.Background(), "a")
	if err != nil {
		panic(err)
	}
	ctx, cancel := lease.Context(context.Background())
	defer cancel()
	fmt.Println("holding")
	// A raw read, so that the thread that was blocked here goes on at once,
	// before the runtime gets to run the timer that is overdue.
	if _, err := syscall.Read(0, make([]byte, 1)); err != nil {
		panic(err)
	}
	first := ctx.Err()
	fmt.Println(first != nil, errors.Is(context.Cause(ctx), pawl.ErrLost), errors.Is(lease.Err(), pawl.ErrLost),
		errors.Is(lease.Release(context.Background()), pawl.ErrLost))
}

// pausedDial is paused while its first connection is made, which fails then.
func pausedDial() {
	dials := 0
	locks, err := pawl.Connect(context.Background(), func(context.Context) (driver.Store, error) {
		switch dials++; dials {
		case 1:
			return nil, pawl.ErrUnavailable
		case 2:
			fmt.Println("dialing")
			if _, err := syscall.Read(0, make([]byte, 1)); err != nil {
				panic(err)
			}
			return nil, context.DeadlineExceeded
		}
		return new(memlock.Store).Participant(), nil
	}, nil)
	if err != nil {
		panic(err)
	}
	_, err = locks.Acquire(context.Background(), "a")
	fmt.Println(err)
}

// TestPausedDial: a pause of the process during the first connection does not end Acquire.
func TestPausedDial(t *testing.T) {
	if line := paused(t, "dial", 3*time.Second); line != "<nil>\n" {
		t.Errorf("Acquire = %s", line)
	}
}

func TestPausedHolderFindsItsLeaseLost(t *testing.T) {
	if line := paused(t, "holder", pausedTTL); line != "true true true true\n" {
		t.Errorf("after the pause: context ended, cause, Err, Release are ErrLost: %s", line)
	}
}

// paused runs this program, stops it for a while when it has printed something, and returns what it prints then.
func paused(t *testing.T, what string, during time.Duration) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_TEST_PAUSED="+what, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	began := driver.Now()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// kill returns before all threads have stopped; the reader must not run yet.
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			t.Fatalf("waiting for the stop: %v, status %v", err, status)
		}
		break
	}
	if _, err := io.WriteString(stdin, "x"); err != nil {
		t.Fatal(err)
	}
	for driver.Now().Sub(began) <= during {
		time.Sleep(during / 10)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return line
}
