// SPDX-License-Identifier: Apache-2.0

// Package keys names the keys of locks.
package keys

import "strings"

// Key returns the key of the lock with a name. The name is its hash tag, so that all keys of
// a name are in one slot of a cluster. If the name begins with }, the tag would be empty,
// and Redis ignores an empty tag. So Key puts U+0001 before such a name; names cannot
// contain that character.
func Key(prefix, name string) string {
	if strings.HasPrefix(name, "}") {
		name = "\x01" + name
	}
	return prefix + "{" + name + "}"
}

// Name returns the name of the lock that has the key. ok is false if the key is of another form.
func Name(prefix, key string) (name string, ok bool) {
	name, ok = strings.CutPrefix(key, prefix+"{")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, "}")
	return strings.TrimPrefix(name, "\x01"), ok
}

// Pattern returns a MATCH pattern of SCAN for the locks whose names begin with start.
func Pattern(prefix, start string) string {
	pattern := strings.TrimSuffix(Key(prefix, start), "}")
	return escape(pattern) + "*"
}

// escape returns a MATCH pattern of SCAN that matches only text.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
