// SPDX-License-Identifier: Apache-2.0

package memlock

import (
	"github.com/pawl-go/pawl/driver"
)

// reserved is how many tokens a grant that may be kept has after its own.
const reserved = 4000

// Recalls implements driver.Recaller.
func (p *participant) Recalls() bool { return true }

// recallable is a grant that its client may keep.
type recallable struct{ *grant }

var (
	_ driver.Reserver   = recallable{}
	_ driver.Recallable = recallable{}
)

// shown returns g as the client sees it.
func (g *grant) shown() driver.Grant {
	if g.spare > 0 {
		return recallable{g}
	}
	return g
}

// Reserved implements driver.Reserver.
func (g recallable) Reserved() (tokens uint64, others bool) { return g.spare, g.others }

// OnWanted implements driver.Recallable.
func (g recallable) OnWanted(f func(driver.Recall)) {
	g.owner.store.mu.Lock()
	defer g.owner.store.mu.Unlock()
	g.wanted = f
	for _, how := range g.early {
		go f(how)
	}
	g.early = nil
}

// recall tells the holders that may keep the name that somebody else wants it.
func (l *lock) recall(how driver.Recall) {
	for _, g := range l.holders {
		switch {
		case !g.keeps || g.owner.crashed:
		case g.wanted != nil:
			go g.wanted(how)
		default:
			g.early = append(g.early, how)
		}
	}
}
