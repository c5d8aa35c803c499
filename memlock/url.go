// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func init() { pawl.Register("mem", openByURL) }

// named contains the stores of URLs with a name, by name.
var named sync.Map

// openByURL opens mem:, a new store that no other client can reach, or mem://name, the store with that name in
// this process.
func openByURL(_ context.Context, url string, _ *pawl.Options) (driver.Store, error) {
	_, name, _ := strings.Cut(url, ":")
	name = strings.TrimPrefix(name, "//")
	if strings.ContainsAny(name, "/?#@") {
		return nil, errors.New("memlock: this is neither mem: nor a URL like mem://name")
	}
	if name == "" {
		return new(Store).Participant(), nil
	}
	s, _ := named.LoadOrStore(name, new(Store))
	return s.(*Store).Participant(), nil
}
