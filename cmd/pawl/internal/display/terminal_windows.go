// SPDX-License-Identifier: Apache-2.0

package display

import (
	"os"

	"golang.org/x/sys/windows"
)

// columns returns how many columns the terminal f has, or 0 if f is not a terminal.
func columns(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}

// ClosedOutput returns false: Windows does not tell. A write will fail.
func ClosedOutput(*os.File) bool { return false }

// NobodyReads returns false: Windows does not tell. A write will fail.
func NobodyReads(*os.File) bool { return false }
