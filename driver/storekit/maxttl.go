// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// MaxTTL is the longest TTL that a lease of a store may have. A store that may have forgotten leases grants
// nothing for that time.
type MaxTTL struct {
	TTL time.Duration // 0: no client has set it
	By  string        // the Signature of the holder that has set it
}

// Holder returns the client that set m, or nil if it is unknown.
func (m MaxTTL) Holder() *driver.Holder { return Signed(m.By) }

// String returns the TTL and the client that set it, as in "30s, set by root@host".
func (m MaxTTL) String() string {
	if h := m.Holder(); h != nil {
		return fmt.Sprintf("%v, set by %v", m.TTL, h)
	}
	return m.TTL.String()
}

// Refuse returns the error of a request for a TTL that is longer than the store's MaxTTL.
func (m MaxTTL) Refuse(ttl time.Duration) error {
	return Disagreef("TTL %s is longer than the store's MaxTTL, which is %v: use a shorter one, as leases are renewed, "+
		"or raise MaxTTL with pawl max-ttl %[1]s", typed(ttl), m)
}

// RefuseHere returns the error of a request for a TTL that is longer than own, the client's MaxTTL.
// set says whether the client's options name own.
func RefuseHere(ttl, own time.Duration, set bool) error {
	unless := ""
	if !set {
		unless = " unless set"
	}
	return Disagreef("TTL %s is longer than MaxTTL, which is %s%s: use a shorter one, as leases are renewed, "+
		"or set MaxTTL with pawl max-ttl %[1]s and ?max_ttl=%[1]s in the URL of each client", typed(ttl), typed(own), unless)
}

// Disagreement is a driver.ErrDisagree that says what differs and what to do.
type Disagreement struct{ text string }

// Error returns what differs, and what to do.
func (d *Disagreement) Error() string { return d.text }

// Is makes errors.Is(err, driver.ErrDisagree) true.
func (d *Disagreement) Is(target error) bool { return target == driver.ErrDisagree }

// Disagreef returns a *Disagreement with a text that fmt.Sprintf makes.
func Disagreef(format string, args ...any) error {
	return &Disagreement{fmt.Sprintf(format, args...)}
}

// typed writes d as people type it: 24h, not 24h0m0s.
func typed(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
