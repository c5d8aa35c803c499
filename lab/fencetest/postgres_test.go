// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fencetest

import (
	"fmt"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl/driver/drivertest/servers"
)

// postgresURL is that of the server of all tests of this package.
var postgresURL string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		server, err := servers.BeginPostgres(servers.Memory(), nil, "-c", "fsync=off")
		if err != nil {
			fmt.Fprintln(os.Stderr, "fencetest:", err)
			return 1
		}
		defer server.Remove()
		postgresURL = server.URL("pawl")
		return m.Run()
	}())
}
