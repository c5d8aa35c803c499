// SPDX-License-Identifier: Apache-2.0

package scale

// Measured returns s with what a pair and a hand-off kept a server busy elsewhere, in seconds,
// and its renewals in proportion. Where there is no such proportion, a renewal is half of a
// pair: one request of two.
func (s Store) Measured(pair, handOff float64) Store {
	if s.Pair > 0 {
		s.Renewal *= pair / s.Pair
	} else {
		s.Renewal = pair / 2
	}
	s.Pair, s.HandOff = pair, handOff
	return s
}

// Stores are what stores cost where they were measured last, by the scheme of their URL:
// many clients, each with a request of its own. docs/scale.md says how. Of a store that is
// not here, the sizes are not known.
var Stores = map[string]Store{
	"redis":  redis,
	"rediss": redis,
	"unix":   redis,
}

const micro = 1e-6

var redis = Store{
	Pair: 50 * micro, HandOff: 66 * micro, Renewal: 24 * micro,
	PairBytes: 1110, HandOffBytes: 1304, RenewalBytes: 201,
	Client: 23_000, Lease: 460, Waiter: 356,
}
