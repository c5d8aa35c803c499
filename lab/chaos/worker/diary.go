// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"log"
	"os"

	"golang.org/x/sys/unix"
)

// diary is a file to which each line is appended by one write.
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

// now is the boot clock, which goes on while the machine sleeps and which nobody sets.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		log.Fatal(err)
	}
	return ts.Nano()
}
