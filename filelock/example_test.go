// SPDX-License-Identifier: Apache-2.0

package filelock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/filelock"
)

// Processes of this machine that name the same directory exclude each other.
func Example() {
	temp, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(temp)

	locks, err := filelock.Open(filepath.Join(temp, "locks"), nil) // such as /var/lib/app/locks
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "backup", func(ctx context.Context, lease *pawl.Lease) error {
		fmt.Println("alone with", lease.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: alone with backup
}
