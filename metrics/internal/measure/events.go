// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"

	"github.com/pawl-go/pawl"
)

// Group is a class and a kind. The events of a group are counted together.
type Group struct{ Class, Kind string }

// GroupOf returns the group of an event. If class is nil, all names are in the class "".
func GroupOf(e pawl.Event, class func(string) string) Group {
	g := Group{Kind: "exclusive"}
	switch {
	case e.Shared:
		g.Kind = "shared"
	case e.Slots > 0:
		g.Kind = "slots"
	}
	if class != nil {
		g.Class = class(e.Name)
	}
	return g
}

// The outcomes of a wait, and of a lease.
const (
	Granted = "granted"
	GaveUp  = "gave_up" // the context of the call has ended
	Failed  = "failed"

	Released = "released"
	WasLost  = "lost"
)

// NotGranted returns the outcome of a wait that ended with err.
func NotGranted(err error) string {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return GaveUp
	}
	return Failed
}

var reasons = []pawl.Reason{pawl.ReasonExpired, pawl.ReasonBroken, pawl.ReasonGone, pawl.ReasonLimit, pawl.ReasonStuck}

// ReasonOf returns the reason of a loss from the error of its event.
func ReasonOf(err error) pawl.Reason {
	var lost *pawl.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return pawl.ReasonGone
}
