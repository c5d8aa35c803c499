// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zklock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/drivertest"
)

// ensemble is three servers.
type ensemble struct {
	servers [3]*server
	// outs carry what each server sends to the others, on the connections that it
	// has made: the one to its leader is among them.
	outs [3]*socks
}

// ensembles is locked while a test uses the ensemble: there is one, as starting three
// servers takes a small machine seconds.
var ensembles struct {
	sync.Mutex
	e    *ensemble
	used int
}

// useEnsemble returns three healthy servers that give one another up only after 20 s, and
// a name that nobody has used. The test may do with the servers what it likes.
func useEnsemble(t testing.TB) (e *ensemble, name string) {
	t.Helper()
	ensembles.Lock()
	t.Cleanup(ensembles.Unlock)
	for range 3 { // somebody else may take a port before a server does
		if ensembles.e == nil {
			ensembles.e = tryEnsemble(t)
		}
	}
	if e = ensembles.e; e == nil {
		t.Fatal("no ensemble")
	}
	e.heal(t)
	ensembles.used++
	return e, fmt.Sprint("lock/", ensembles.used)
}

// heal has all servers run and hear one another.
func (e *ensemble) heal(t testing.TB) {
	t.Helper()
	for i, s := range e.servers {
		e.outs[i].heal()
		if s.Cont(); !s.Alive() {
			s.restart(t)
		}
	}
	e.serve(t)
}

// end kills the servers.
func (e *ensemble) end() {
	for i, s := range e.servers {
		if s != nil {
			s.End()
			os.RemoveAll(s.Dir)
		}
		if e.outs[i] != nil {
			e.outs[i].close()
		}
	}
}

func tryEnsemble(t testing.TB) *ensemble {
	t.Helper()
	e := new(ensemble)
	var started bool
	defer func() {
		if !started {
			e.end()
		}
	}()
	var peers []string
	for i := range e.servers {
		_, quorum, _ := net.SplitHostPort(drivertest.FreeAddr(t))
		_, election, _ := net.SplitHostPort(drivertest.FreeAddr(t))
		peers = append(peers, fmt.Sprintf("server.%d=127.0.0.1:%s:%s", i+1, quorum, election))
	}
	for i := range e.servers {
		e.outs[i] = startSocks(t)
		host, port, _ := net.SplitHostPort(e.outs[i].listener.Addr().String())
		dir, err := os.MkdirTemp("", "zklock-test")
		must(t, err)
		s := newServer(dir, append([]string{
			"initLimit=100", "syncLimit=200", "-DsocksProxyHost=" + host, "-DsocksProxyPort=" + port, "-DsocksNonProxyHosts=",
		}, peers...)...)
		must(t, os.WriteFile(filepath.Join(s.Dir, "myid"), []byte(fmt.Sprint(i+1)), 0o600))
		e.servers[i] = s
		must(t, s.Launch())
	}
	for _, s := range e.servers {
		if err := s.Await(); err != nil {
			t.Log(err)
			return nil
		}
	}
	started = true
	return e
}

// serve waits until all servers that run serve.
func (e *ensemble) serve(t testing.TB) {
	t.Helper()
	for _, s := range e.servers {
		if s.Alive() {
			must(t, s.Await())
		}
	}
}

// leader returns the number of the leader.
func (e *ensemble) leader(t testing.TB) int {
	t.Helper()
	found := -1
	eventually(patience, func() bool {
		for i, s := range e.servers {
			if s.Alive() && strings.Contains(s.Word("srvr"), "Mode: leader") {
				found = i
			}
		}
		return found >= 0
	})
	if found < 0 {
		t.Fatal("the ensemble has no leader")
	}
	return found
}

// url returns the URL of some of the servers.
func (e *ensemble) url(which ...int) string {
	var addrs []string
	for _, i := range which {
		addrs = append(addrs, e.servers[i].Addr)
	}
	return "zk://" + strings.Join(addrs, ",")
}

// openURL returns a participant of the servers at url. It bears an election: a server that was cut off may say that it
// follows, and find soon after that it has no leader.
func openURL(t testing.TB, url string, ttl time.Duration) *client {
	t.Helper()
	return openWith(t, url, options(ttl))
}

func openWith(t testing.TB, url string, o *Options) *client {
	t.Helper()
	var d driver.Store
	var err error
	if !eventually(patience, func() bool {
		d, err = NewStore(t.Context(), url, o)
		return !errors.Is(err, driver.ErrUnavailable)
	}) || err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return clientOn(d)
}
