// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// Outage measures for how long a store has not answered a waiter. A waiter gives up after one TTL. The zero Outage
// says that the store answers.
type Outage struct {
	since Instant // when the first request without an answer was sent
	away  bool
}

// Over records an answer.
func (o *Outage) Over() { o.away = false }

// Failed records that the request sent at an instant has failed with err. It returns a
// *SilentError if there has been no answer for ttl, and nil otherwise.
func (o *Outage) Failed(sent Instant, ttl time.Duration, err error) error {
	if !o.away {
		o.away, o.since = true, sent
	}
	if d := Now().Sub(o.since); d >= ttl {
		return &SilentError{For: d, Err: err}
	}
	return nil
}
