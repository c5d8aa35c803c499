// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl"
)

// ErrStale matches a *StaleError with errors.Is.
var ErrStale = errors.New("stale fencing token")

// StaleError is the error of a write that was refused, because the resource has seen a larger token. The write did
// nothing. Stop: the lease has ended.
type StaleError struct {
	Resource string     // the resource of the write
	Token    pawl.Token // the token of the write
	Seen     pawl.Token // the largest token that the resource has seen
}

// Error names both tokens and the resource.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: token %d is older than %d, which resource %q has seen: the lease it came from has ended",
		e.Token, e.Seen, e.Resource)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// MaxToken is the largest token: the largest BIGINT of SQL.
const MaxToken pawl.Token = math.MaxInt64

// Check returns an error unless token is from 1 to MaxToken and resource is not empty. The helpers
// of this package call it.
func Check(resource string, token pawl.Token) error {
	switch {
	case resource == "":
		return errors.New(`fence: the resource has no name: give it one, such as "invoice/42"`)
	case token == 0:
		return fmt.Errorf("fence: resource %q: token 0 is no fencing token: use a store that has them, and ask for that with Options.Require", resource)
	case token > MaxToken:
		return fmt.Errorf("fence: resource %q: token %d is larger than 2^63-1, which no store of pawl grants", resource, token)
	}
	return nil
}

// ParseToken reads a token in decimal digits, such as $PAWL_TOKEN or the value of an HTTP header.
func ParseToken(s string) (pawl.Token, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 || strings.HasPrefix(s, "0") {
		if len(s) > 40 {
			s = strings.ToValidUTF8(s[:40], "") + "…"
		}
		return 0, fmt.Errorf("fence: %q is no fencing token: send the lease's, a number from 1 to %d, in decimal digits alone", s, MaxToken)
	}
	return pawl.Token(n), nil
}
