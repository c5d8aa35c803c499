// SPDX-License-Identifier: Apache-2.0

package driver

// Finding is one result of Store.Examine: what is good or bad about a store, and what to do.
type Finding struct {
	Check  string // what was checked, in a word: server, role, clock, persistence, eviction …
	Server string // the server; empty if the finding is about the store
	Level  Level
	Text   string // what was found, in words
	Do     string // what to do about it; may be empty if Level is Fine
}

// Level says how bad a Finding is.
type Level int

// Levels.
const (
	Fine    Level = iota // as it should be, or good to know
	Warning              // works, but not as well as it should, or not for long
	Problem              // does not work, or does not keep what the store promises
)

// String returns the level in a word.
func (l Level) String() string {
	switch l {
	case Fine:
		return "fine"
	case Warning:
		return "warning"
	}
	return "problem"
}
