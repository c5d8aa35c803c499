// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// Names of what is in the store; docs/zookeeper-protocol.md is the contract with
// clients in other languages.

// encodeName returns the node that stands for a name, below the root. What
// ZooKeeper does not accept in a path, or understands in another way, is written
// as %XX: the slash, the characters that its Java code takes for invalid (it sees
// UTF-16, so all beyond U+FFFF are), and the whole of ".", ".." and
// "zookeeper", which is the servers' own.
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

// decodeName returns the name that a node stands for. Nodes of others, which no
// name is encoded as, are not ok.
func decodeName(node string) (name string, ok bool) {
	name, err := url.PathUnescape(node)
	return name, err == nil && encodeName(name) == node
}

// guid returns the part of a node's name that tells an attempt from all others.
// It is the id of the lease, if that can be in a path as it is.
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

// nodePrefix returns the name of an attempt's node without the number that the
// server appends.
func nodePrefix(lease string, k kind) string { return "_c_" + guid(lease) + k.marker() }
