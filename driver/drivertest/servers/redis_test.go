// SPDX-License-Identifier: Apache-2.0

//go:build linux

package servers

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDo: the answers are what redis-cli prints.
func TestDo(t *testing.T) {
	r := StartRedis(t)
	r.Do("set", "a", "1\n2")
	r.Do("rpush", "l", "x", "", "z")
	for _, args := range [][]string{
		{"get", "a"}, {"get", "none"}, {"keys", "none"}, {"strlen", "a"}, {"lrange", "l", "0", "-1"}, {"incr", "l"}, {"nonsense"},
		{"config", "get", "save"}, {"set", "a", "1", "nx"}, {"mget", "a", "none", "l"}, {"info", "keyspace"},
		{"eval", "return{1,{'a','b'},{},redis.status_reply('OK')}", "0"}, {"command", "info", "get"},
	} {
		got, err := r.Do(args...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		out, err := exec.Command("redis-cli", append([]string{"-p", r.port()}, args...)...).Output()
		if want := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%v: %q; redis-cli prints %q, %v", args, got, want, err)
		}
	}
	r.Kill()
	if _, err := r.Do("ping"); err == nil {
		t.Error("a server that is gone answers")
	}
}

// TestCommands: those of f are told, and not those of a script, nor others.
func TestCommands(t *testing.T) {
	r := StartRedis(t)
	got, err := r.Commands(func() {
		r.Do("set", "a", "x] y")
		r.Do("ping")
		r.Do("eval", "return redis.call('get', 'a')", "0")
		r.Do("script", "exists", "x")
	})
	if want := "set, eval, script exists"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	r.Kill()
	if got, err := r.Commands(func() {}); err == nil {
		t.Errorf("a server that is gone was sent %v", got)
	}
}
