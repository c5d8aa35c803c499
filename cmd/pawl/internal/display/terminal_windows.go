// SPDX-License-Identifier: Apache-2.0

package display

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalSize returns how many columns the terminal f has, or 0 if f is none, and no rows: it may not
// understand what draws on a screen.
func terminalSize(f *os.File) (columns, rows int) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, 0
}

// ClosedOutput is not known here: a write fails.
func ClosedOutput(*os.File) bool { return false }

// NobodyReads is not known here: a write fails.
func NobodyReads(*os.File) bool { return false }
