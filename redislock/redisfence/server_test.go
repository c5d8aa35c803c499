// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisfence

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
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
		s := servers.NewRedis(dir)
		defer s.End()
		if err := s.Begin(); err != nil {
			fmt.Fprintln(os.Stderr, "redisfence:", err)
			return 1
		}
		address = s.Addr
		return m.Run()
	}())
}

// startServer starts a redis-server that is stopped when the test ends, and returns
// it and a client.
func startServer(t testing.TB, args ...string) (*servers.Redis, rueidis.Client) {
	t.Helper()
	s := servers.StartRedis(t, args...)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, client
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
