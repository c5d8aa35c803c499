// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisfence

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// address is that of the server of the examples.
var address string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "redisfence")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		s, err := launch(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "redisfence:", err)
			return 1
		}
		defer s.stop()
		address = s.addr
		return m.Run()
	}())
}

// startServer starts a redis-server that is stopped when the test ends, and returns
// its process and a client.
func startServer(t testing.TB, args ...string) (*os.Process, rueidis.Client) {
	t.Helper()
	s, err := launch(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s.cmd.Process, client
}

type server struct {
	addr  string
	cmd   *exec.Cmd
	ended chan struct{}
}

func (s *server) stop() { s.cmd.Process.Kill(); <-s.ended }

func launch(dir string, args ...string) (*server, error) {
	var errs []error
	for range 5 { // somebody else may take the port before the server does
		s, err := tryLaunch(dir, args)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func tryLaunch(dir string, args []string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String(), ended: make(chan struct{})}
	l.Close()
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command(cmp.Or(os.Getenv("PAWL_REDIS_SERVER"), "redis-server"),
		append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir}, args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if the test is killed the server goes with it
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: apt-get install redis-server", err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { s.cmd.Process.Kill() })
	defer stuck.Stop()
	var said strings.Builder
	for log := bufio.NewScanner(out); log.Scan(); {
		if strings.Contains(log.Text(), "Ready to accept connections") {
			go func() { io.Copy(io.Discard, out); s.cmd.Wait(); close(s.ended) }()
			return s, nil
		}
		fmt.Fprintln(&said, log.Text())
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	return nil, fmt.Errorf("redis-server does not start:\n%s", &said)
}

// ask sends a command and returns the reply as text, or the error.
func ask(client rueidis.Client, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := client.Do(ctx, client.B().Arbitrary(args...).Build()).ToString()
	if err != nil {
		return err.Error()
	}
	return s
}

// count is ask for a reply that is a number; -999 is an error.
func count(client rueidis.Client, args ...string) int64 {
	n, err := client.Do(context.Background(), client.B().Arbitrary(args...).Build()).AsInt64()
	if err != nil {
		return -999
	}
	return n
}
