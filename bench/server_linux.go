// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// server is a process on loopback, with a directory of its own.
type server struct {
	kind string // redis, zk, etcd
	addr string // host:port
	dir  string
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

// output is what a process has written so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (s *server) pid() int { return s.cmd.Process.Pid }

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = os.RemoveAll(s.dir)
}

// launch starts a server and waits until ready says that it serves.
func launch(kind, addr, dir string, ready func(*server) bool, name string, args ...string) (*server, error) {
	s := &server{kind: kind, addr: addr, dir: dir, out: new(output), done: make(chan struct{})}
	s.cmd = exec.Command(name, args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	// If we are killed the servers go with us.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_, processor, _ := pinned()
	if err := startOn(s.cmd, processor); err != nil {
		return nil, fmt.Errorf("%w: make deps installs the servers", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.done) }()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-s.done:
			return nil, fmt.Errorf("%s does not start: %s", name, s.out)
		default:
		}
		if ready(s) {
			return s, nil
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not become ready: %s", name, s.out)
}

// dirFor returns a new directory: in memory where syncs to a disk are not what is
// measured.
func dirFor(kind string, memory bool) (string, error) {
	parent := ""
	if info, err := os.Stat("/dev/shm"); memory && err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	return os.MkdirTemp(parent, "pawl-bench-"+kind+"-")
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// start starts a server of the given kind: redis, redis-aof, zk or etcd.
func start(kind string) (s *server, err error) {
	dir, err := dirFor(kind, kind != "redis-aof")
	if err != nil {
		return nil, err
	}
	defer func() {
		if s == nil {
			_ = os.RemoveAll(dir)
		}
	}()
	for range 5 { // somebody else may take the port before the server does
		var port string
		if port, err = freePort(); err != nil {
			return nil, err
		}
		switch kind {
		case "redis":
			s, err = startRedis(port, dir)
		case "redis-aof":
			s, err = startRedis(port, dir, "--appendonly", "yes", "--appendfsync", "always")
		case "zk":
			s, err = startZooKeeper(port, dir)
		case "etcd":
			s, err = startEtcd(port, dir)
		default:
			return nil, fmt.Errorf("no kind of server: %q", kind)
		}
		if err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startRedis(port, dir string, more ...string) (*server, error) {
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--daemonize", "no", "--maxclients", "20000"}, more...)
	ready := func(s *server) bool { return strings.Contains(s.out.String(), "Ready to accept connections") }
	return launch("redis", "127.0.0.1:"+port, dir, ready, "redis-server", args...)
}

const zkJars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar"

func startZooKeeper(port, dir string) (*server, error) {
	config := filepath.Join(dir, "zoo.cfg")
	text := "tickTime=500\ndataDir=" + dir + "\nclientPort=" + port + "\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n" +
		"maxClientCnxns=0\n4lw.commands.whitelist=*\nmaxSessionTimeout=120000\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	ready := func(s *server) bool { return strings.Contains(word(s.addr, "srvr"), "Mode:") }
	return launch("zk", "127.0.0.1:"+port, dir, ready, "java", "-Xmx256m", "-XX:+UseSerialGC", "-Xshare:auto",
		"-cp", zkJars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
}

// word sends one of ZooKeeper's four-letter words and returns the answer.
func word(addr, w string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, w)
	b, _ := io.ReadAll(c)
	return string(b)
}

func startEtcd(port, dir string) (*server, error) {
	peer, err := freePort()
	if err != nil {
		return nil, err
	}
	client, between := "http://127.0.0.1:"+port, "http://127.0.0.1:"+peer
	ready := func(s *server) bool {
		return exec.Command("etcdctl", "--endpoints", s.addr, "--command-timeout", "500ms", "get", "x").Run() == nil
	}
	return launch("etcd", "127.0.0.1:"+port, dir, ready, "etcd", "--name", "one", "--data-dir", filepath.Join(dir, "data"),
		"--logger", "zap", "--log-level", "error", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", between, "--initial-advertise-peer-urls", between, "--initial-cluster", "one="+between)
}
