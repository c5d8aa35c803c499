// SPDX-License-Identifier: Apache-2.0

// Package keys names the keys of locks.
package keys

import "strings"

// Key returns the key of a name's lock. The name is its hash tag, so that all keys
// of one name are in one slot of a cluster. The tag of a name that begins with }
// would be empty, which means none: U+0001, which no name contains, makes it one.
func Key(prefix, name string) string {
	if strings.HasPrefix(name, "}") {
		name = "\x01" + name
	}
	return prefix + "{" + name + "}"
}

// Name returns the name whose lock the key is of.
func Name(prefix, key string) (name string, ok bool) {
	name, ok = strings.CutPrefix(key, prefix+"{")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, "}")
	return strings.TrimPrefix(name, "\x01"), ok
}

// Pattern returns the MATCH of SCAN for the keys of names that begin with start.
func Pattern(prefix, start string) string {
	pattern := strings.TrimSuffix(Key(prefix, start), "}")
	return escape(pattern) + "*"
}

// escape returns the text as a MATCH of SCAN.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
