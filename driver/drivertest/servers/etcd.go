// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Etcd is a member of a cluster.
type Etcd struct {
	Server
	Program string   // NewEtcd sets it to etcd
	Args    []string // all arguments of the process

	look growing
}

// Quick are settings for a cluster that can grant leases of one second: it gives up a silent
// member after 300 ms.
var Quick = []string{"--heartbeat-interval", "50", "--election-timeout", "300"}

// BeginEtcd starts a cluster of n members and waits until all of them serve.
func BeginEtcd(dir string, n int, run func(*exec.Cmd) error, args ...string) (ms []*Etcd, err error) {
	err = attempt(func() (err error) {
		ms, err = tryEtcd(dir, n, run, args)
		return err
	})
	return ms, err
}

func tryEtcd(dir string, n int, run func(*exec.Cmd) error, args []string) (ms []*Etcd, err error) {
	defer func() {
		if err != nil {
			for _, m := range ms {
				m.End()
			}
			ms = nil
		}
	}()
	if dir, err = os.MkdirTemp(dir, "cluster"); err != nil {
		return nil, err
	}
	peers, initial := make([]string, n), make([]string, n)
	for i := range n {
		m := NewEtcd(filepath.Join(dir, fmt.Sprint("m", i)))
		m.Run, ms = run, append(ms, m)
		if m.Addr, err = m.Hold(); err != nil {
			return ms, err
		}
		if peers[i], err = m.Hold(); err != nil {
			return ms, err
		}
		initial[i] = fmt.Sprintf("m%d=http://%s", i, peers[i])
	}
	for i, m := range ms {
		m.Args = append([]string{
			"--name", fmt.Sprint("m", i), "--data-dir", m.Dir, "--logger", "zap", "--log-level", "warn",
			"--listen-client-urls", "http://" + m.Addr, "--advertise-client-urls", "http://" + m.Addr,
			"--listen-peer-urls", "http://" + peers[i], "--initial-advertise-peer-urls", "http://" + peers[i],
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", dir,
		}, args...)
		if err := m.Launch(); err != nil {
			return ms, err
		}
	}
	for _, m := range ms {
		if err := m.Await(); err != nil {
			return ms, err
		}
	}
	return ms, nil
}

// NewEtcd returns a member that is not started yet. Its Args have to name its directory and addresses.
func NewEtcd(dir string) *Etcd {
	m := &Etcd{Program: "etcd", look: growing(time.Second)}
	m.Dir, m.often = dir, 20*time.Millisecond
	m.command = func() (*exec.Cmd, error) { return exec.Command(m.Program, m.Args...), nil }
	m.serves = m.healthy
	return m
}

// healthy reports whether the member has a leader and no alarm. It sends an HTTP request, because
// running etcdctl again and again would take longer than the start of the member.
func (m *Etcd) healthy() bool {
	client := http.Client{Timeout: m.look.next(), Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + m.Addr + "/health")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return strings.Contains(string(text), `"true"`)
}

// StartEtcd starts a cluster of n members that ends with the test. Its settings are Quick
// and args.
func StartEtcd(t T, n int, args ...string) []*Etcd {
	t.Helper()
	ms, err := BeginEtcd(InMemory(t), n, nil, append(Quick[:len(Quick):len(Quick)], args...)...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, m := range ms {
		t.Cleanup(m.End)
	}
	return ms
}

// InMemory returns a directory for a test, in memory if the machine has one there, because etcd syncs after every write.
func InMemory(t T) string {
	t.Helper()
	dir, err := os.MkdirTemp(Memory(), "pawl-test-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Ctl runs etcdctl and returns its output.
func (m *Etcd) Ctl(args ...string) (string, error) {
	out, err := exec.Command("etcdctl", append([]string{"--endpoints", m.Addr}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("etcdctl %v: %w\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out)), err
}
