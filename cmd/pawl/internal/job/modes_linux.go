// SPDX-License-Identifier: Apache-2.0

package job

import "golang.org/x/sys/unix"

const (
	getModes = unix.TCGETS
	setModes = unix.TCSETS
)
