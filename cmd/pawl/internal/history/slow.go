// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"io"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// Slowness tells once when looks become rare because listing is slow, and again when listing takes
// twice as long.
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

// Seldom returns a text which says that looks are rare because listing is slow, or "".
func (l *Look) Seldom() string {
	pace := l.Pace()
	if pace <= 5*Every || !l.Answered() {
		return ""
	}
	return fmt.Sprintf("listing takes %v, so it is repeated only every %v", driver.ForPeople(l.Took), driver.ForPeople(pace))
}
