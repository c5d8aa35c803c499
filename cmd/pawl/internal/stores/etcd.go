// SPDX-License-Identifier: Apache-2.0

//go:build !noetcd

package stores

// A command that was built with -tags noetcd does without: etcd's client makes the start
// of a command, also of one that does not use it, twice as long, and its file two fifths
// larger.
import _ "github.com/pawl-go/pawl/etcdlock"
