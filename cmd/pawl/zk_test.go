// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest"
)

// startZooKeeper starts a ZooKeeper server and returns its address.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	const jar = "/usr/share/java/zookeeper.jar"
	if _, err := os.Stat(jar); err != nil {
		t.Fatalf("%v: apt-get install zookeeper", err)
	}
	addr := drivertest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	settings := "tickTime=200\ndataDir=" + dir + "\nclientPort=" + port + "\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n" +
		"4lw.commands.whitelist=*\nmaxSessionTimeout=60000\n"
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	// That it is this one that answers, and not another on the same port, is known by
	// its directory.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue
		}
		c.SetDeadline(time.Now().Add(time.Second))
		io.WriteString(c, "conf")
		b, _ := io.ReadAll(c)
		c.Close()
		if strings.Contains(string(b), dir) {
			return addr
		}
	}
	t.Fatal("the ZooKeeper server does not start")
	return ""
}

// TestZooKeeper: on a ZooKeeper server the commands do what they do on files.
func TestZooKeeper(t *testing.T) {
	w := newWorld(t)
	addr := startZooKeeper(t)
	store := "zk://me:s3cret@" + addr + "/locks?tick_time=200ms"
	w.serves(store, addr, "deploy", "2s")

	for _, c := range []struct {
		store, want string
		code        int
	}{
		{"zk://me:s3cret@127.0.0.1:1", "is the server running", exitUnavailable},
		{"zk://me:s3cret@" + addr + "?nonsense=1", "nonsense", exitConfig},
		{"zk://me:s3cret@" + addr, "at most", exitConfig},
	} {
		p := w.pawl("run", "-s", c.store, "--ttl", "10m", "deploy", "true")
		p.end(c.code)
		got := p.stderr()
		if !strings.Contains(got, c.want) || strings.Contains(got, "s3cret") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: stderr is %q; want one line with %q", c.store, got, c.want)
		}
	}
}
