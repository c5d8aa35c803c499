// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	_ "embed"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

var (
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/state.lua
	stateLua string
	//go:embed lua/propose.lua
	proposeLua string
	//go:embed lua/end.lua
	endLua string
	//go:embed lua/want.lua
	wantLua string
	//go:embed lua/read.lua
	readLua string
	//go:embed lua/enqueue.lua
	enqueueLua string
	//go:embed lua/nodes.lua
	nodesLua string
	//go:embed lua/check.lua
	checkLua string
)

// The scripts by their index in scripts.
const (
	proposeScript = iota
	endScript
	wantScript
	readScript
	enqueueScript
	nodesScript
)

// otherNodes is the code of a script that found another record of the set of nodes.
const otherNodes = -6

var scripts = []epoch.Script{
	proposeScript: {Text: commonLua + epoch.Whole(proposeLua, epoch.Each+stateLua), PerRequest: 2, Grants: true},
	endScript:     {Text: commonLua + epoch.Whole(endLua, epoch.Each+stateLua), PerRequest: 2},
	wantScript:    {Text: commonLua + stateLua + wantLua},
	readScript:    {Text: commonLua + stateLua + readLua},
	enqueueScript: {Text: commonLua + epoch.Whole(enqueueLua, stateLua), Grants: true},
	nodesScript:   {Text: commonLua + nodesLua},
}

// Names of what is in the store; docs/redlock-nodes.md lists them.
const (
	floorSuffix     = ":token"
	markSuffix      = ":ended:" // and the lease
	listenersSuffix = ":listeners"
	waitersSuffix   = ":waiters" // and with : and the lease its record
	wishesSuffix    = ":wishes"
	nodesSuffix     = ":nodes" // beside the epoch
)
