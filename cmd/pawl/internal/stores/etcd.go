// SPDX-License-Identifier: Apache-2.0

//go:build !noetcd

package stores

// Build with -tags noetcd to leave etcd's client out. With the client, every command takes
// twice as long to start, whether it uses etcd or not, and the binary is two fifths
// larger.
import _ "github.com/pawl-go/pawl/etcdlock"
