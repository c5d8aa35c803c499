// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// world has the servers of a workload.
type world struct {
	servers  []*server
	Redis    []string // addresses
	ZK       string
	Etcd     string
	Postgres string // URL
}

// leaseTTL is the TTL of the leases. It is longer than any lease is held.
const leaseTTL = 30 * time.Second

// newWorld starts servers of the given kinds.
func newWorld(kinds []string) (*world, error) {
	w := new(world)
	for _, kind := range kinds {
		s, err := start(kind)
		if err != nil {
			w.stop()
			return nil, err
		}
		w.servers = append(w.servers, s)
		switch s.kind {
		case "redis":
			w.Redis = append(w.Redis, s.Addr)
		case "zk":
			w.ZK = s.Addr
		case "etcd":
			w.Etcd = s.Addr
		case "postgres":
			w.Postgres = "postgres://pawl@" + s.Addr + "/postgres?sslmode=disable"
		}
	}
	return w, nil
}

func (w *world) stop() {
	for _, s := range w.servers {
		s.stop()
	}
}

// With assume_new, new Redis servers have no quarantine.
func (w *world) redisURL() string { return "redis://" + w.Redis[0] + "?assume_new=true" }
func (w *world) redlockURL() string {
	return "redlock://" + strings.Join(w.Redis, ",") + "?assume_new=true"
}

// versions returns the names and versions of the servers.
func (w *world) versions() (list []string) {
	for kind, args := range map[string][]string{"redis": {"redis-server", "--version"}, "etcd": {"etcd", "--version"}, "postgres": postgresVersion()} {
		for _, s := range w.servers {
			if s.kind == kind {
				out, _ := exec.Command(args[0], args[1:]...).Output()
				line, _, _ := strings.Cut(string(out), "\n")
				if _, v, ok := strings.Cut(line, "v="); ok {
					line = "Redis " + strings.Fields(v)[0]
				}
				list = append(list, strings.Replace(line, "etcd Version:", "etcd", 1))
				break
			}
		}
	}
	if w.ZK != "" {
		_, v, _ := strings.Cut(servers.Word(w.ZK, "srvr"), "Zookeeper version: ")
		v, _, _ = strings.Cut(v, "-")
		list = append(list, "ZooKeeper "+v)
	}
	return list
}

// cpu returns the processor time that all servers together have used so far.
func (w *world) cpu() (sum time.Duration, err error) {
	for _, s := range w.servers {
		d, err := cpuOf(s.Pid())
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
