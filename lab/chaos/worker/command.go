// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is like turn, but uses `pawl run`. This program is also the command that pawl runs, and writes down
// how long it lives: a living command believes in the lease. Some commands leave a process running. For some, the
// pawl process is killed, or stopped for a while.
func (w *worker) command(ctx context.Context, r *rand.Rand, name, kind string, slots int, patience, hold time.Duration) bool {
	n := w.next.Add(1)
	args := []string{"run", name, "--store", w.store, "--ttl", w.ttl.String(), "--wait", patience.String()}
	how := "try"
	if patience > 0 {
		how = "wait"
	}
	switch kind {
	case "shared":
		args = append(args, "--shared")
	case "slots":
		args = append(args, "--slots", strconv.Itoa(slots))
	}
	self, err := os.Executable()
	if err != nil {
		return false
	}
	args = append(args, "--", self, "-child", fmt.Sprint(n), "-log", w.diary.file.Name(), "-hold", hold.String())
	switch r.IntN(6) {
	case 0:
		args = append(args, "-linger", (hold/2 + 100*time.Millisecond).String())
	case 1:
		args = append(args, "-linger", (hold/2 + 100*time.Millisecond).String(), "-away")
	}
	cmd := exec.Command(w.pawl, args...)
	var says strings.Builder
	cmd.Stderr = &says
	w.diary.write(now(), "ask %d %s%s %s %d %s", n, w.space, name, kind, slots, how)
	if err := cmd.Start(); err != nil {
		w.diary.write(now(), "failed %d %s", n, text(err))
		return false
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w.molest(r, cmd.Process, hold)
	select {
	case err = <-ended:
	case <-ctx.Done():
		cmd.Process.Signal(syscall.SIGTERM)
		err = <-ended
	}
	if err != nil && cmd.ProcessState.ExitCode() > 0 { // ended by itself, not by a signal
		w.diary.write(now(), "failed %d %v: %s", n, err, text(fmt.Errorf("%s", says.String())))
		return false
	}
	w.diary.write(now(), "gave %d -", n)
	return true
}

// molest sometimes kills or stops the pawl process of a command.
func (w *worker) molest(r *rand.Rand, p *os.Process, hold time.Duration) {
	after := time.Duration(r.Int64N(int64(hold + w.ttl)))
	switch r.IntN(8) {
	case 0:
		time.AfterFunc(after, func() { p.Kill() })
	case 1:
		pause := time.Duration(r.Int64N(int64(2 * w.ttl)))
		time.AfterFunc(after, func() {
			p.Signal(syscall.SIGSTOP)
			time.AfterFunc(pause, func() { p.Signal(syscall.SIGCONT) }) // nested, so that CONT comes after STOP
		})
	}
}

// child is the command that pawl runs. A process that it leaves running writes its lines for the same claim: the
// lease has to last until that process ends too.
func child(d *diary, n int64, hold, linger time.Duration, away bool) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if token := os.Getenv("PAWL_TOKEN"); linger >= 0 {
		d.write(now(), "grant %d %s %s", n, token, os.Getenv("PAWL_LEASE"))
	}
	if linger > 0 {
		self, _ := os.Executable()
		cmd := exec.Command(self, "-child", fmt.Sprint(n), "-log", d.file.Name(), "-hold", (hold + linger).String(), "-linger", "-1s")
		if away { // in a new session, without the environment
			cmd.Env, cmd.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
		}
		if err := cmd.Start(); err != nil {
			d.write(now(), "giving %d", n)
			return
		}
	}
	for end := now() + int64(hold); ; pause(ctx, 3*time.Millisecond) {
		t := now()
		d.write(t, "held %d", n)
		if t >= end || ctx.Err() != nil {
			return
		}
	}
}
