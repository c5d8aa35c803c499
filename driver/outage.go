// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// Outage is how long a waiter in the queue of a store has had no answer, for its driver to
// give up after one TTL. The zero value is that of a store that answers.
type Outage struct {
	since Instant // when the first question was sent that had no answer
	away  bool
}

// Over notes an answer.
func (o *Outage) Over() { o.away = false }

// Failed notes that what was sent at an instant has failed with err. It returns an
// *SilentError if there has been no answer for ttl, and else nil.
func (o *Outage) Failed(sent Instant, ttl time.Duration, err error) error {
	if !o.away {
		o.away, o.since = true, sent
	}
	if d := Now().Sub(o.since); d >= ttl {
		return &SilentError{For: d, Err: err}
	}
	return nil
}
