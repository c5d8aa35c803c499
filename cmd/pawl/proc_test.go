// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// world is a store of locks and a directory, in which pawl runs. When the test
// ends no process that came from it may be left.
type world struct {
	*testing.T
	dir string
	exe string // pawl, under a name that no other world has
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t, dir, dir + "/pawl"}
	exe, err := exec.LookPath("pawl")
	if err == nil {
		err = errors.Join(os.Symlink(exe, w.exe), os.Mkdir(dir+"/locks", 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.noneLeft(); w.killSleepers() })
	return w
}

// mark is in the environment of all processes of the world but the guards,
// which are known by the name of their program.
func (w *world) mark() string { return "PAWL_TEST=" + w.dir }

func (w *world) env() []string {
	return append(os.Environ(), w.mark(), "PAWL_STORE=file://"+w.dir+"/locks", "W="+w.dir, "P="+w.exe)
}

// processes lists the world's processes.
func (w *world) processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, _ := os.ReadFile(d + "/environ")
		line, _ := os.ReadFile(d + "/cmdline")
		words := strings.ReplaceAll(string(line), "\x00", " ")
		if bytes.Contains(env, []byte(w.mark()+"\x00")) || strings.HasPrefix(words, w.exe+" ") {
			found = append(found, filepath.Base(d)+" "+words)
		}
	}
	return found
}

// others returns the processes that descend from p, but the guard.
func (w *world) others(p *proc) (pids []int) {
	parent := make(map[int]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if f := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:]); len(f) > 1 {
			parent[pid], _ = strconv.Atoi(f[1])
		}
	}
	guards := w.guards()
	for pid := range parent {
		for up := parent[pid]; up > 1; up = parent[up] {
			if up == p.Process.Pid && pid != guards[0] {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (w *world) noneLeft() {
	if poll(func() bool { return len(w.processes()) == 0 }) {
		return
	}
	w.Errorf("left over: %q", w.processes())
	poll(func() bool { // one that is killed may just have started another
		left := w.processes()
		for _, p := range left {
			pid, _ := strconv.Atoi(strings.Fields(p)[0])
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
}

// killSleepers ends what has no mark: a test that fails leaves it behind. Its ids are in files "pids".
func (w *world) killSleepers() {
	deeper, _ := filepath.Glob(w.dir + "/*/pids")
	for _, file := range append(deeper, w.dir+"/pids") {
		ids, _ := os.ReadFile(file)
		for _, id := range strings.Fields(string(ids)) {
			line, _ := os.ReadFile("/proc/" + id + "/cmdline")
			if pid, err := strconv.Atoi(id); err == nil && string(line) == "/bin/sleep\x001000\x00" {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// proc is a process with what it wrote. It writes to files, so that waiting for
// it does not mean waiting for what it left behind.
type proc struct {
	*exec.Cmd
	w    *world
	name string
	done chan struct{}
	err  error
}

// pawl starts pawl with the given words.
func (w *world) pawl(words ...string) *proc {
	w.Helper()
	return w.start(w.exe, words...)
}

// sh starts a script.
func (w *world) sh(script string) *proc { return w.start("/bin/sh", "-c", script) }

func (w *world) start(path string, words ...string) *proc {
	w.Helper()
	out, err := os.CreateTemp(w.dir, "out-")
	if err != nil {
		w.Fatal(err)
	}
	defer out.Close()
	errs, err := os.Create(out.Name() + ".err")
	if err != nil {
		w.Fatal(err)
	}
	defer errs.Close()
	p := &proc{Cmd: exec.Command(path, words...), w: w, name: out.Name(), done: make(chan struct{})}
	p.Env, p.Dir, p.Stdout, p.Stderr = w.env(), w.dir, out, errs
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		w.Fatal(err)
	}
	go func() { p.err = p.Cmd.Wait(); close(p.done) }()
	return p
}

func (p *proc) stdout() string { b, _ := os.ReadFile(p.name); return string(b) }
func (p *proc) stderr() string { b, _ := os.ReadFile(p.name + ".err"); return string(b) }

func (p *proc) signal(s syscall.Signal) {
	p.w.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.w.Error(err)
	}
}

// end waits for the process and checks its exit code, and what it says.
func (p *proc) end(code int, says ...string) {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(ample):
		_ = p.Process.Kill()
		p.w.Fatalf("%q does not end; stderr %q", p.Args, p.stderr())
	}
	if got := exitCode(p.err); got != strconv.Itoa(code) {
		p.w.Fatalf("%q: exit code %s, want %d; stderr %q", p.Args, got, code, p.stderr())
	}
	p.says(says...)
}

// says checks that stderr has texts, and prints that stdout has.
func (p *proc) says(texts ...string)   { p.w.Helper(); p.has("stderr", p.stderr(), texts) }
func (p *proc) prints(texts ...string) { p.w.Helper(); p.has("stdout", p.stdout(), texts) }

func (p *proc) has(where, got string, texts []string) {
	p.w.Helper()
	for _, want := range texts {
		if !strings.Contains(got, want) {
			p.w.Errorf("%q: %s is %q; want %q in it", p.Args, where, got, want)
		}
	}
}

func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	if !poll(ok) {
		w.Fatalf("not in time: %s; processes %q", what, w.processes())
	}
}

func (w *world) exists(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

func (w *world) appears(name string) {
	w.Helper()
	w.until(name+" exists", func() bool { return w.exists(name) })
}

func (w *world) create(name string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(names ...string) {
	w.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(w.dir, name))
	return string(b)
}

// busy reports whether somebody holds the lock.
func (w *world) busy(name string) bool {
	p := w.pawl("run", "-n", name, "true")
	<-p.done
	return exitCode(p.err) == fmt.Sprint(exit.Busy)
}

// holds starts a pawl run whose command holds the lock until "out" exists. It returns when the command runs.
func (w *world) holds(words ...string) *proc {
	w.Helper()
	p := w.pawl(append(append([]string{"run"}, words...), "--", "sh", "-c", holdUntil)...)
	w.appears("in")
	return p
}

// free lets the command of holds end, and waits for it.
func (w *world) free(p *proc) {
	w.Helper()
	w.create("out")
	p.end(0)
}

// holdUntil is a command that makes the file "in" and goes on until "out" exists.
const holdUntil = `touch $W/in; while ! test -e $W/out; do sleep 0.02; done`
