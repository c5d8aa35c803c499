// SPDX-License-Identifier: Apache-2.0

package memlock

import "github.com/pawl-go/pawl"

// Open returns a client on a new store, which no other client can reach. It returns an error that wraps
// errors.ErrUnsupported if o.Require asks for more than memory can give.
func Open(o *pawl.Options) (*pawl.Client, error) { return new(Store).Open(o) }

// Open returns a client that is a new participant in s. It returns the errors
// of pawl.New.
func (s *Store) Open(o *pawl.Options) (*pawl.Client, error) { return pawl.New(s.Participant(), o) }
