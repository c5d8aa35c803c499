// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisfence

import (
	"bufio"
	"cmp"
	"context"
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

// startServer starts a redis-server that is stopped when the test ends, and returns
// its process and a client.
func startServer(t testing.TB, args ...string) (*os.Process, rueidis.Client) {
	t.Helper()
	for range 5 { // somebody else may take the port before the server does
		if p, addr := tryServer(t, args); p != nil {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			return p, client
		}
	}
	t.Fatal("redis-server does not start")
	return nil, nil
}

func tryServer(t testing.TB, args []string) (*os.Process, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(cmp.Or(os.Getenv("PAWL_REDIS_SERVER"), "redis-server"),
		append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if the test is killed the server goes with it
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	for log := bufio.NewScanner(out); log.Scan(); {
		if strings.Contains(log.Text(), "Ready to accept connections") {
			ended := make(chan struct{})
			go func() { io.Copy(io.Discard, out); cmd.Wait(); close(ended) }()
			t.Cleanup(func() { cmd.Process.Kill(); <-ended })
			return cmd.Process, addr
		}
		t.Log(log.Text())
	}
	cmd.Process.Kill()
	cmd.Wait()
	return nil, ""
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
