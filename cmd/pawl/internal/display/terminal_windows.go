// SPDX-License-Identifier: Apache-2.0

package display

import "os"

// ClosedOutput returns false: Windows does not tell. A write will fail.
func ClosedOutput(*os.File) bool { return false }

// NobodyReads returns false: Windows does not tell. A write will fail.
func NobodyReads(*os.File) bool { return false }
