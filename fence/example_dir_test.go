// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fence_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pawl-go/pawl/fence"
)

// A command under "pawl run" has its token in the environment.
func ExampleDir() {
	dir, err := os.MkdirTemp("", "fence")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PAWL_TOKEN", "34")
	defer os.Unsetenv("PAWL_TOKEN")

	guard, err := fence.OpenDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	token, err := fence.ParseToken(os.Getenv("PAWL_TOKEN"))
	if err != nil {
		log.Fatal(err)
	}
	err = guard.Do(context.Background(), "report", token, func() error {
		return os.WriteFile(dir+"/report.txt", []byte("done"), 0o600)
	})
	fmt.Println(err)
	fmt.Println(guard.Do(context.Background(), "report", token-1, nil))

	// Output:
	// <nil>
	// fence: token 33 is older than 34, which resource "report" has seen: the lease it came from has ended
}
