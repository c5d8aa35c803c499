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
	//go:embed lua/read.lua
	readLua string
	//go:embed lua/enqueue.lua
	enqueueLua string
	//go:embed lua/nodes.lua
	nodesLua string
)

// The indexes of scripts.
const (
	proposeScript = iota
	endScript
	readScript
	enqueueScript
	nodesScript
)

// otherNodes is the reply code of a script that found another record of the set of nodes.
const otherNodes = -6

// commands are the calls that only these scripts make; see epoch.Config.
const commands = "{'ZREMRANGEBYSCORE', z, 2, 2},"

var scripts = []epoch.Script{
	proposeScript: {Text: commonLua + epoch.Whole(proposeLua, epoch.Each+stateLua), PerRequest: 2, Grants: true},
	endScript:     {Text: commonLua + epoch.Whole(endLua, epoch.Each+stateLua), PerRequest: 2},
	readScript:    {Text: commonLua + stateLua + readLua},
	enqueueScript: {Text: commonLua + epoch.Whole(enqueueLua, stateLua), Grants: true},
	nodesScript:   {Text: commonLua + nodesLua},
}

// Suffixes of the keys beside a lock or the epoch; docs/redlock-nodes.md lists the keys.
const (
	floorSuffix     = ":token"
	markSuffix      = ":ended:" // then the lease
	listenersSuffix = ":listeners"
	waitersSuffix   = ":waiters" // and, with ":" and a lease behind it, the place of the lease
	wishesSuffix    = ":wishes"
	nodesSuffix     = ":nodes" // beside the epoch
)
