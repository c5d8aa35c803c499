// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// The names of nodes are a contract with clients in other languages: see docs/zookeeper-protocol.md.

// encodeName returns the node of a name, below the root. It writes as %XX what ZooKeeper does not accept in a path
// or reads in another way: the slash, the characters that are invalid for its Java code (which sees UTF-16, so all beyond U+FFFF
// are), and the first byte of ".", ".." and "zookeeper", which is the servers' own node.
func encodeName(name string) string {
	var b strings.Builder
	reserved := name == "." || name == ".." || name == "zookeeper"
	for i, r := range name {
		if reserved && i == 0 || r == '%' || r == '/' || r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 {
			for _, c := range []byte(string(r)) {
				b.WriteByte('%')
				b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{c})))
			}
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// decodeName returns the name of a node. ok is false if the node is of another program: encodeName makes no such node.
func decodeName(node string) (name string, ok bool) {
	name, err := url.PathUnescape(node)
	return name, err == nil && encodeName(name) == node
}

// guid returns the part of a node's name that is unique to the lease. It is the id of the lease, if a path can have
// that as it is.
func guid(lease string) string {
	if len(lease) >= 16 && len(lease) <= 64 && !strings.ContainsFunc(lease, notAlphanumeric) {
		return lease
	}
	sum := sha256.Sum256([]byte(lease))
	return hex.EncodeToString(sum[:16])
}

func notAlphanumeric(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
}

// nodePrefix returns the name of a lease's node, without the number that the server appends.
func nodePrefix(lease string, k kind) string { return "_c_" + guid(lease) + k.marker() }
