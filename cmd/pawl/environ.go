// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl"
)

// heldVar is a variable with the ids of all leases under which a command runs,
// its own and those of "pawl run" around it. An inner "pawl run" sees for what it
// would wait in vain.
const heldVar = "PAWL_HELD"

func held() []string { return strings.Fields(os.Getenv(heldVar)) }

// heldNamesVar has the names of those leases, escaped as in the path of a URL. By them an
// inner "pawl run" sees that somebody waits for what is held around it.
const heldNamesVar = "PAWL_HELD_NAMES"

// holding says which leases are held around us. A pawl that does not know the names hands them
// on as they were: then they are fewer than the leases, and nothing is known.
func holding() (opts []pawl.Option) {
	names := strings.Fields(os.Getenv(heldNamesVar))
	leases := held()
	if len(names) != len(leases) {
		return nil
	}
	for i, lease := range leases {
		name, err := url.PathUnescape(names[i])
		if err != nil {
			return nil
		}
		opts = append(opts, pawl.Holding(name, lease))
	}
	return opts
}

// outputs are the variables by which the command is told of its lease. No pawl reads
// one of them to find its store: a script takes the same lock whether or not it
// runs beneath another "pawl run".
var outputs = []string{"PAWL_LOCK", "PAWL_LEASE", "PAWL_LEASE_STORE", "PAWL_TOKEN", heldVar, heldNamesVar, keepersVar}

// environ returns the environment of the command.
func (r *runner) environ(lease *pawl.Lease) []string {
	dropped, keepers := outputs, keepers()
	if !r.keepPasswords && canKeep() {
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
		"PAWL_LOCK="+r.name,
		"PAWL_LEASE="+lease.ID(),
		"PAWL_LEASE_STORE="+r.store.url.String(),
		heldVar+"="+strings.Join(append(held(), lease.ID()), " "),
		heldNamesVar+"="+strings.TrimPrefix(os.Getenv(heldNamesVar)+" "+url.PathEscape(r.name), " "),
	)
	if lease.Token() != 0 {
		env = append(env, "PAWL_TOKEN="+strconv.FormatUint(uint64(lease.Token()), 10))
	}
	if len(keepers) > 0 {
		env = append(env, keepersVar+"="+strings.Join(keepers, " "))
	}
	return env
}

// passwords are the variables from which stores take one. The command does not inherit
// them: what a command has in its environment ends up in logs. A "pawl run"
// inside of it needs them all the same, and finds them where the kernel keeps what
// the outer one was started with, which only the same user can read.
var passwords = []string{"PAWL_ETCD_PASSWORD", "PAWL_POSTGRES_PASSWORD", "PAWL_REDIS_PASSWORD", "PAWL_ZK_PASSWORD"}

// keepersVar has the process ids of those "pawl run" around us that have been given passwords.
const keepersVar = "PAWL_KEEPERS"

func keepers() []string { return strings.Fields(os.Getenv(keepersVar)) }

// givenPasswords are those that this process was started with.
var givenPasswords = func() map[string]string {
	given := make(map[string]string)
	for _, key := range passwords {
		given[key] = os.Getenv(key)
	}
	return given
}()

// canKeep reports whether those inside will find what we keep.
func canKeep() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	_, err := os.Stat("/proc/self/environ")
	return err == nil
}

// recallPasswords sets the passwords that a "pawl run" around us has kept. One that is set here,
// even to nothing, stays.
func recallPasswords() {
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
