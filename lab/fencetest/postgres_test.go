// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// postgresURL is that of the server of all tests of this package.
var postgresURL string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		server, err := startPostgres()
		if err != nil {
			fmt.Fprintln(os.Stderr, "fencetest:", err)
			return 1
		}
		defer server.stop()
		return m.Run()
	}())
}

// postgres is a server on a socket in a directory of its own. It may not run as root.
type postgres struct {
	dir string
	cmd *exec.Cmd
	out bytes.Buffer

	broom *exec.Cmd
	floor io.Closer
}

func startPostgres() (*postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} // if the tests are killed the server goes with them
	s := new(postgres)
	if s.dir, err = os.MkdirTemp("", "pawl-postgres"); err != nil {
		return nil, err
	}
	if err := s.sweep(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if os.Getuid() == 0 {
		if attr.Credential, err = s.give("postgres"); err != nil {
			return nil, errors.Join(err, s.swept())
		}
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "pawl", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attr, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), s.swept())
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "max_connections=100", "-c", "shared_buffers=16MB")
	s.cmd.SysProcAttr, s.cmd.Dir = attr, s.dir
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, s.swept())
	}
	postgresURL = "postgres:///postgres?user=pawl&host=" + s.dir
	return s, s.await()
}

// await waits until the server answers.
func (s *postgres) await() error {
	db, err := sql.Open("pgx", postgresURL)
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return nil
		}
		if time.Now().After(end) {
			s.stop()
			return fmt.Errorf("postgres does not start: %w\n%s", err, s.out.Bytes())
		}
	}
}

// give gives the directory to another user, and returns how to be that one.
func (s *postgres) give(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(s.dir, int(uid), int(gid))
}

func (s *postgres) stop() {
	s.cmd.Process.Signal(syscall.SIGQUIT) // at once, with its children
	s.cmd.Wait()
	s.swept()
}

// sweep starts a process that removes the directory when this one has ended, also if
// it is killed: the data are 40 MB. The server may go on writing for a moment then.
func (s *postgres) sweep() (err error) {
	s.broom = exec.Command("sh", "-c", `read x; rm -rf "$0" || { sleep 5; rm -rf "$0"; }`, s.dir)
	s.broom.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the tests
	if s.floor, err = s.broom.StdinPipe(); err != nil {
		return err
	}
	return s.broom.Start()
}

// swept has the directory removed now.
func (s *postgres) swept() error {
	s.floor.Close()
	return s.broom.Wait()
}

// postgresBin returns the directory of the newest server's programs.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("initdb is missing: apt-get install postgresql")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return len(a) - len(b) })), nil
}
