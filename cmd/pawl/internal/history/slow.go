// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"io"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Slowness tells once that a store is asked less often than people expect, and again when that has
// become twice as rare.
type Slowness struct{ told time.Duration }

func (s *Slowness) Tell(w io.Writer, l *Look) {
	switch text := l.Seldom(); {
	case text == "":
		s.told = 0
	case l.Took >= 2*s.told:
		s.told = l.Took
		fmt.Fprintln(w, "pawl: "+text)
	}
}

// Seldom says that a list that took so long is not made as often as people expect, or returns "".
func (l *Look) Seldom() string {
	pace := l.Pace()
	if pace <= 5*Every || !l.Answered() {
		return ""
	}
	return fmt.Sprintf("listing takes %v, so it is repeated only every %v", driver.ForPeople(l.Took), driver.ForPeople(pace))
}
