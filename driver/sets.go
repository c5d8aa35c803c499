// SPDX-License-Identifier: Apache-2.0

package driver

import "context"

// Sets is a Driver that can grant several names in one step.
type Sets interface {
	Driver

	// TryAcquireAll asks the store once for a lease on each of the names of reqs, no
	// two of which are alike, and gets all of them or none. It overtakes nobody
	// who waits for one of them. Grants are in the order of reqs. Errors are those of
	// TryAcquire, with a Grant for each request where there is one to undo, and one that is
	// errors.ErrUnsupported, when nothing was asked, if these names cannot be granted
	// in one step. Who gets an error may ask for them one after the other.
	TryAcquireAll(ctx context.Context, reqs []*Request) ([]Grant, error)
}
