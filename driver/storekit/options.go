// SPDX-License-Identifier: Apache-2.0

package storekit

// OrDefault returns a copy of opts, or the zero options if opts is nil. A client may connect long after Open, and the
// caller may change the options in the meantime.
func OrDefault[T any](opts *T) *T {
	own := new(T)
	if opts != nil {
		*own = *opts
	}
	return own
}
