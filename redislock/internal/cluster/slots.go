// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"hash/crc32"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

// slotOf returns the hash slot of a key. If the key has a hash tag, only the tag counts.
func slotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % epoch.SlotCount
}

// crc16 is CRC-16/XMODEM: polynomial x¹⁶ + x¹² + x⁵ + 1, no reflection.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// slotTag returns a hash tag for a slot: the smallest number whose decimal digits are in
// the slot. A key or channel with this tag in braces is in the slot.
func slotTag(slot int) string { return strconv.Itoa(slotTags()[slot]) }

var slotTags = sync.OnceValue(func() *[epoch.SlotCount]int {
	tags, missing := new([epoch.SlotCount]int), epoch.SlotCount
	for i := range tags {
		tags[i] = -1
	}
	for n := 0; missing > 0; n++ {
		if slot := slotOf(strconv.Itoa(n)); tags[slot] < 0 {
			tags[slot] = n
			missing--
		}
	}
	return tags
})

// EpochKey returns the key of the record of the epoch, for the key of a lock.
func (c *Cluster) EpochKey(key string) string { return c.epochKey(c.slot(key)) }

// floors is how many token floors a single server has. They are so many that two busy names rarely share a floor,
// and so few that they take a megabyte at most.
const floors = 8192

// FloorKey returns the key of the token floor, for the key of a lock. In a cluster all locks of a slot share a floor; at a
// single server, locks with the same checksum do.
func (c *Cluster) FloorKey(key string) string {
	if c.one != nil {
		var text [64]byte // saves the allocation of strconv.Itoa
		return string(strconv.AppendUint(append(append(text[:0], c.conf.Prefix...), "token:"...), uint64(crc32.ChecksumIEEE([]byte(key))%floors), 10))
	}
	return c.conf.Prefix + "token:{" + slotTag(slotOf(key)) + "}"
}
