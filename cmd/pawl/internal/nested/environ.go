// SPDX-License-Identifier: Apache-2.0

// Package nested passes data from a "pawl run" to its command, and to any pawl inside the command: the lease,
// the leases of the outer pawl runs, and the passwords of stores.
package nested

import (
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

// heldVar names the variable with the leases of all outer pawl runs. Each is the lease's id, "=" and the
// name of the lock, escaped as in the path of a URL.
const heldVar = "PAWL_HELD"

// Held returns the leases of the outer pawl runs.
func Held() (holds []pawl.Hold) {
	for _, s := range strings.Fields(os.Getenv(heldVar)) {
		lease, name, _ := strings.Cut(s, "=")
		if name, err := url.PathUnescape(name); err == nil {
			holds = append(holds, pawl.Hold{Name: name, Lease: lease})
		}
	}
	return holds
}

// Surrounding returns an error if an outer pawl run holds the lock: inner, our command, would wait
// forever. If info is nil, because the store could not be asked, it returns nil: acquiring will fail and
// say why.
func Surrounding(info *pawl.Info, inner string) error {
	if info == nil {
		return nil
	}
	for _, h := range info.Holders {
		if slices.ContainsFunc(Held(), func(outer pawl.Hold) bool { return outer.Lease == h.Lease }) {
			return exit.Fail(exit.Busy, fmt.Sprintf("%q: the surrounding pawl run already holds it (pid %d)", info.Name, h.PID),
				"use another name, or remove the inner "+inner)
		}
	}
	return nil
}

// outputs are the variables that describe the lease to the command. No pawl takes its store from them, so a
// script takes the same lock inside and outside of another pawl run.
var outputs = []string{"PAWL_LOCK", "PAWL_LEASE", "PAWL_LEASE_STORE", "PAWL_TOKEN", heldVar, keepersVar}

// Environ returns the environment of a command that runs under a lease on name, in store.
func Environ(lease *pawl.Lease, name, store string, keepPasswords bool) []string {
	dropped, keepers := outputs, keepers()
	if !keepPasswords && canKeep() {
		dropped = slices.Concat(outputs, passwords)
		if slices.ContainsFunc(passwords, func(key string) bool { return givenPasswords[key] != "" }) {
			keepers = append(keepers, strconv.Itoa(os.Getpid()))
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		key, _, _ := strings.Cut(s, "=")
		return slices.Contains(dropped, key)
	})
	env = append(env,
		"PAWL_LOCK="+name,
		"PAWL_LEASE="+lease.ID(),
		"PAWL_LEASE_STORE="+store,
		heldVar+"="+strings.TrimPrefix(os.Getenv(heldVar)+" "+lease.ID()+"="+url.PathEscape(name), " "),
	)
	if lease.Token() != 0 {
		env = append(env, "PAWL_TOKEN="+strconv.FormatUint(uint64(lease.Token()), 10))
	}
	if len(keepers) > 0 {
		env = append(env, keepersVar+"="+strings.Join(keepers, " "))
	}
	return env
}

// passwords are the variables from which stores take a password. The command does
// not inherit them, because environments end up in logs. A pawl run inside the command
// reads them from /proc instead: the kernel keeps the environment with which the outer
// pawl run was started, and shows it to the same user only.
var passwords = []string{"PAWL_ETCD_PASSWORD", "PAWL_POSTGRES_PASSWORD", "PAWL_REDIS_PASSWORD", "PAWL_ZK_PASSWORD"}

// keepersVar names the variable with the process ids of the outer pawl runs that were started with passwords.
const keepersVar = "PAWL_KEEPERS"

func keepers() []string { return strings.Fields(os.Getenv(keepersVar)) }

// givenPasswords are the passwords in the environment with which this process was started.
var givenPasswords = func() map[string]string {
	given := make(map[string]string)
	for _, key := range passwords {
		given[key] = os.Getenv(key)
	}
	return given
}()

// canKeep reports whether a pawl inside the command can read our environment from /proc.
func canKeep() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	_, err := os.Stat("/proc/self/environ")
	return err == nil
}

// RecallPasswords sets the password variables from the environments of the outer pawl runs. It leaves a
// variable that is set here, even to "".
func RecallPasswords() {
	for _, pid := range slices.Backward(keepers()) {
		if n, err := strconv.Atoi(pid); err != nil || n <= 0 {
			continue
		}
		env, _ := os.ReadFile("/proc/" + pid + "/environ")
		for _, s := range strings.Split(string(env), "\x00") {
			key, value, _ := strings.Cut(s, "=")
			if _, set := os.LookupEnv(key); !set && slices.Contains(passwords, key) {
				_ = os.Setenv(key, value)
			}
		}
	}
}
