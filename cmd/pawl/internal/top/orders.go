// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"

	"errors"
)

// topOrder is what the table is sorted by.
type topOrder string

var topOrders = map[topOrder]struct {
	key     rune
	column  int
	up      bool // smaller ones come first
	compare func(a, b *topRow) int
}{
	"name":    {'n', 0, true, func(a, b *topRow) int { return cmp.Compare(a.name, b.name) }},
	"holder":  {'h', 5, true, func(a, b *topRow) int { return cmp.Compare(a.holder, b.holder) }},
	"age":     {'a', 2, false, func(a, b *topRow) int { return cmp.Compare(b.held, a.held) }},
	"waiting": {'w', 3, false, func(a, b *topRow) int { return cmp.Compare(b.waiting, a.waiting) }},
	"first":   {'f', 4, false, func(a, b *topRow) int { return cmp.Compare(b.first, a.first) }},
}

func (o *topOrder) Set(s string) error {
	if _, ok := topOrders[topOrder(s)]; !ok {
		return errors.New("use name, holder, age, waiting or first")
	}
	*o = topOrder(s)
	return nil
}

func (o *topOrder) String() string { return string(*o) }

func (o *topOrder) Type() string { return "string" }
