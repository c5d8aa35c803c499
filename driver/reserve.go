// SPDX-License-Identifier: Apache-2.0

package driver

// Reserver is a Grant that comes with more tokens than its own. Package pawl passes it
// on to the next waiters of the same client, one after the other and each with the next
// of these tokens, without a word to the store: all that time the store sees one grant,
// with one lease id, one record and one TTL. They are renewed, broken and lost as this
// grant is, and the last of them releases it.
//
// A Grant that is an Inheriter must not be one: a child that has the files of one lease
// would have those of the next.
type Reserver interface {
	// Reserved returns how many tokens after Token are set aside for this grant: every
	// other grant on the name has a greater token than these, or one smaller than
	// Token. It is constant. Others reports whether a participant other than this one
	// was waiting for the name when it was granted, or may have been.
	Reserved() (tokens uint64, others bool)
}
