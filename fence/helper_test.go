// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"errors"
	"testing"
)

func openTestDir(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}
