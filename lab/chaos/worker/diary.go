// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"log"
	"os"

	"golang.org/x/sys/unix"
)

// diary is a file. Each line is appended by a single write.
type diary struct{ file *os.File }

func openDiary(path string) (*diary, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &diary{f}, err
}

func (d *diary) write(at int64, format string, args ...any) {
	if _, err := fmt.Fprintf(d.file, "%d "+format+"\n", append([]any{at}, args...)...); err != nil {
		log.Fatal(err)
	}
}

// now returns the time of the boot clock, which goes on while the machine sleeps and cannot be set.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		log.Fatal(err)
	}
	return ts.Nano()
}
