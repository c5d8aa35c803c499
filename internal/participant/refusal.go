// SPDX-License-Identifier: Apache-2.0

package participant

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// refusal is why a store that answers grants a waiter nothing. It may be loading its data, or be out of memory.
type refusal struct {
	err   error
	began moment // before the first request that was refused
}

// RefusedError says that the store refused requests until the context of a wait ended. It is not ErrUnavailable, because
// the attempt may have left something in the store.
type RefusedError struct{ Last error }

func (e *RefusedError) Error() string { return "the store refuses requests: " + e.Last.Error() }

// again records the refusal of a request that was sent at sent.
func (r *refusal) again(sent moment, f driver.Failure) {
	if f.Passing {
		return
	}
	if r.err == nil {
		r.began = sent
	}
	r.err = f.Err
}

// tellRefusal reports a refusal, once a minute for all waiters.
func (p *Participant) tellRefusal(err error) {
	const often = time.Minute
	p.mu.Lock()
	now := driver.Now()
	tell := p.opts.News != nil && (p.toldRefusal == 0 || now.Sub(p.toldRefusal) > often)
	if tell {
		p.toldRefusal = now
	}
	p.mu.Unlock()
	if tell {
		p.opts.News(driver.News{Refused: err})
	}
}
