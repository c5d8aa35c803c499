// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redislock

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// TestForbiddenCommands: where a command is renamed or forbidden, as in some managed services, the
// error names it. Efficiency does without most of them.
func TestForbiddenCommands(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"SCRIPT", "INFO", "EVALSHA", "MGET", "PUBLISH", "PUBSUB", "TIME", "ZADD", "SETRANGE", "OBJECT"} {
		r := startServer(t, "--rename-command", command, "")
		_, err := NewStore(t.Context(), r.url(), longOptions())
		if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "no command '"+command+"'") || strings.Contains(err.Error(), "local boot") {
			t.Errorf("without %s: %v; want an error that names it, and not the script", command, err)
		}
		opts := longOptions()
		opts.Mode = Efficiency
		d, err := NewStore(t.Context(), r.url(), opts)
		if err != nil {
			t.Errorf("Efficiency without %s: %v", command, err)
			continue
		}
		p := asParty(d)
		t.Cleanup(func() { p.Close() })
		g, err := p.TryAcquire(t.Context(), long("deploy"))
		if err != nil {
			t.Errorf("Efficiency without %s: %v", command, err)
		} else if err := g.Release(t.Context()); (err == nil) != (command != "EVALSHA") {
			t.Errorf("Efficiency without %s: Release = %v", command, err)
		}
	}
}

// TestForbiddenSubscribe: that nobody can be told is found out when somebody has to wait.
func TestForbiddenSubscribe(t *testing.T) {
	t.Parallel()
	r := startServer(t, "--rename-command", "SUBSCRIBE", "")
	s := open(t, servers.StoreURL(r.Redis), longOptions())
	g := take(t, s, long("deploy"))
	_, err := s.Acquire(t.Context(), long("deploy"))
	if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "no command 'SUBSCRIBE'") {
		t.Errorf("Acquire = %v; want an error that names SUBSCRIBE", err)
	}
	release(t, g)
}
