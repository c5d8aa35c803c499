// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal. The methods of a nil terminal do nothing.
//
// If stdin and stdout are the terminal, the command gets the terminal at once, and
// the keyboard's signals reach the command alone. Otherwise we may be part of a
// pipeline, such as "pawl run x -- make | less", and its other members need the
// terminal as well. Then the keyboard's signals reach us, and we forward them. The
// command gets the terminal when it first needs it and stops with TTIN or TTOU.
type terminal struct {
	fd     int
	own    int  // our process group
	wanted bool // the command is to have the terminal whenever we have it
	modes  *term.State
}

func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, own: unix.Getpgrp(), wanted: isTerminal(0) && isTerminal(1)}
	if t.mine() {
		t.modes, _ = term.GetState(fd)
	}
	return t
}

// isTerminal reports whether fd is our controlling terminal.
func isTerminal(fd int) bool {
	_, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil
}

// mine reports whether our group is in the foreground.
func (t *terminal) mine() bool {
	if t == nil {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == t.own
}

// handOver reports whether the command is to have the terminal now.
func (t *terminal) handOver() bool { return t.mine() && t.wanted }

func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

// takeBack makes our group the foreground group again and reports whether it did. It
// takes the terminal from the given group, and from a group that no longer exists: a
// command that is a shell may have left the terminal to one. It leaves the terminal to
// any other group: the user's shell has taken the terminal.
func (t *terminal) takeBack(group int) bool {
	if t == nil {
		return false
	}
	now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || now != group && (now == t.own || groupExists(now)) {
		return false
	}
	t.give(t.own)
	return true
}

// restore sets the terminal's modes to those that openTerminal read, if our group is in the
// foreground.
func (t *terminal) restore() {
	if t.mine() && t.modes != nil {
		_ = term.Restore(t.fd, t.modes)
	}
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}
