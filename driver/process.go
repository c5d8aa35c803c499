// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
)

// Filled returns h with this process in the fields that are empty: its user, host and id, and the base name of the
// program.
func (h Holder) Filled() Holder {
	h.User = cmp.Or(h.User, username())
	h.Host = cmp.Or(h.Host, hostname())
	h.PID = cmp.Or(h.PID, os.Getpid())
	h.Command = cmp.Or(h.Command, filepath.Base(os.Args[0]))
	if h.Host == hostname() {
		h.Space = cmp.Or(h.Space, PIDSpace())
	}
	return h
}

// username is looked up once, as that can read files.
var username = sync.OnceValue(func() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
})

// PIDSpace names the PID namespace of this process, for Holder.Space: the start of the
// kernel's boot id, and the number of the namespace, which may be the same on two machines. It
// returns "" on systems without such namespaces, and where /proc is missing.
func PIDSpace() string { return pidSpace() }

var pidSpace = sync.OnceValue(func() string {
	ns, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) < bootLen {
		return ""
	}
	return string(boot[:bootLen]) + "-" + strings.Trim(ns, "pid:[]")
})

const bootLen = 8 // hexadecimal digits

var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// elsewhere returns words that say where h.PID is valid if h.Host is this host and PID is not valid here.
func (h *Holder) elsewhere() string {
	here := PIDSpace()
	switch {
	case h.Host != hostname() || h.Space == "" || here == "" || h.Space == here:
		return ""
	case strings.HasPrefix(h.Space, here[:bootLen+1]):
		return " of another container"
	}
	return " of another machine or boot"
}

// Here reports whether this process could see the process PID: Host is this host, and Space is the PID
// namespace of this process.
func (h Holder) Here() bool { return h.PID > 0 && h.Host == hostname() && h.Space == PIDSpace() }
