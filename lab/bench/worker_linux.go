// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// task is the work of a worker process.
type task struct {
	Do    string // drive or many
	World *world
	Load  load
	Arena string // file of the arena

	// The fields below are for tasks without a load.
	Contender string
	Name      string
	N         int
	For       time.Duration
}

const taskEnv = "PAWL_BENCH_TASK"

// worker is a process that does a task. It writes a line when it is ready, reads a line that
// tells it to go on, and writes its result in a line.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *servers.Output
}

func spawn(t *task) (*worker, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(self), err: new(servers.Output)}
	w.cmd.Env = append(os.Environ(), taskEnv+"="+string(b))
	w.cmd.Stderr = w.err
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	return w, w.cmd.Start()
}

// hear reads the worker's next line into v.
func (w *worker) hear(v any) error {
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("a process has ended: %s", strings.TrimSpace(w.err.String()))
	}
	return json.Unmarshal(line, v)
}

// tell lets the worker go on.
func (w *worker) tell() { _, _ = io.WriteString(w.in, "\n") }

// kill ends the worker, as kill -9 does.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// work is the main function of a worker.
func work(text string) error {
	t := new(task)
	if err := json.Unmarshal([]byte(text), t); err != nil {
		return err
	}
	switch t.Do {
	case "drive":
		return t.drive()
	case "many":
		return t.many()
	}
	return fmt.Errorf("no task %q", t.Do)
}

// say writes v to the parent process, in a line of JSON.
func say(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// told waits until the parent process tells us to go on.
func told() error {
	_, err := bufio.NewReader(os.Stdin).ReadByte()
	return err
}

// opening limits the time in which participants connect.
const opening = 30 * time.Second

func (t *task) drive() error {
	a, err := openArena(t.Arena)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	s, err := sit(ctx, t.World, t.Load)
	if err != nil {
		return err
	}
	defer s.close()
	if err := errors.Join(say("ready"), told()); err != nil {
		return err
	}
	return say(s.drive(a))
}
