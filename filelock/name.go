// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// maxEncoded leaves room for a suffix within the 255 bytes that a file name may have.
	maxEncoded = 200
	// maxPrefix is the length of the readable part of a long name.
	maxPrefix = 100
	// hashMark cannot occur in an escaped name, where hexadecimal digits follow each %.
	hashMark = "%h"
)

// encode returns the file name, without suffix, for a lock's name. Different names have different file names, even
// if the file system folds case or normalises Unicode: a file name consists of lower-case ASCII only.
func encode(name string) string {
	var b strings.Builder
	device := isDevice(name)
	for i := range len(name) {
		c := name[i]
		first := i == 0 && (c == '.' || c == '-' || device)
		if plain(c) && !first {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteString(hex.EncodeToString([]byte{c}))
	}
	if b.Len() <= maxEncoded {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return cutEscape(b.String()[:maxPrefix]) + hashMark + hex.EncodeToString(sum[:])
}

// decode returns the lock's name for a file name. It returns false if encode cannot have made the file name, and
// for a hashed name, which only the record in the file tells.
func decode(enc string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(enc); i++ {
		if enc[i] != '%' {
			b.WriteByte(enc[i])
			continue
		}
		if i+3 > len(enc) {
			return "", false
		}
		c, err := hex.DecodeString(enc[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	name = b.String()
	return name, name != "" && encode(name) == enc
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// cutEscape removes an incomplete escape from the end of s.
func cutEscape(s string) string {
	if i := strings.LastIndexByte(s, '%'); i >= 0 && len(s)-i < 3 {
		return s[:i]
	}
	return s
}

// isDevice reports whether Windows takes a file with that name, and any extension, for a device. Other spellings
// of device names contain bytes that encode escapes.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	number, ok := strings.CutPrefix(stem, "com")
	if !ok {
		number, ok = strings.CutPrefix(stem, "lpt")
	}
	return ok && len(number) == 1 && '0' <= number[0] && number[0] <= '9'
}
