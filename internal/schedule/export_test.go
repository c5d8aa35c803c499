// SPDX-License-Identifier: Apache-2.0

package schedule

import "github.com/pawl-go/pawl/driver"

// NextLook returns when the timer fires.
func (s *Schedule[T]) NextLook() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed
}

// Hold keeps what is added waiting, as if all were at work, until the function that
// it returns is called.
func (w *Workers[T]) Hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working += w.most
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.working -= w.most - 1
		w.idle.Go(w.work)
	}
}
