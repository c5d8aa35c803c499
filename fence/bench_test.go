// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"testing"

	"github.com/pawl-go/pawl"
)

// BenchmarkDo is what a guard costs: a write with the token of the one before it,
// and one with a new token, of which a lease has one.
func BenchmarkDo(b *testing.B) {
	for _, c := range []struct {
		name string
		g    Guard
	}{{"memory", new(Memory)}, {"dir", openTestDir(b, b.TempDir())}} {
		token := pawl.Token(1)
		do := func(b *testing.B) {
			if err := c.g.Do(b.Context(), "x", token, func() error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(c.name+"/same", func(b *testing.B) {
			for b.Loop() {
				do(b)
			}
		})
		b.Run(c.name+"/new", func(b *testing.B) {
			for b.Loop() {
				token++
				do(b)
			}
		})
	}
}
