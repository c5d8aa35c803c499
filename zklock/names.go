// SPDX-License-Identifier: Apache-2.0

package zklock

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/pawl-go/pawl/driver/storekit"
)

// Clients in other languages rely on the names of nodes: see docs/zookeeper-protocol.md.

// encodeName returns the node name for a lock's name. It writes some characters as %XX, because ZooKeeper refuses
// them in a path or gives them another meaning: the slash, the percent sign, the characters that ZooKeeper's Java
// code refuses (it sees UTF-16, so all characters beyond U+FFFF are among them), and the first byte of ".", ".."
// and "zookeeper", which is the servers' own node.
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

// decodeName returns the lock's name for a node name. ok is false if encodeName cannot have made the node name;
// then the node belongs to another program.
func decodeName(node string) (name string, ok bool) {
	name, err := url.PathUnescape(node)
	return name, err == nil && encodeName(name) == node
}

// guid returns the part of a node's name that is unique to the lease. It is the lease's id if that is alphanumeric
// and of a suitable length, else a hash of the id.
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

// nodePrefix returns the name of a lease's node without the number that the server appends.
func nodePrefix(lease string, s storekit.Sharing) string { return "_c_" + guid(lease) + marker(s) }
