// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	_ "embed"

	"github.com/pawl-go/pawl/redislock/internal/epoch"
)

var (
	//go:embed lua/lease.lua
	leaseLua string
	//go:embed lua/queue.lua
	queueLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/break.lua
	breakLua string
	//go:embed lua/downgrade.lua
	downgradeLua string
)

// The scripts by their index in scripts.
const (
	acquireScript = iota
	extendScript
	releaseScript
	breakScript
	downgradeScript
)

// commands are the calls that only these scripts make; see epoch.Config.
const commands = "{'ZSCORE', z, 'x'}, {'ZRANGEBYSCORE', z, 0, 0},"

var scripts = []epoch.Script{
	acquireScript:   {Text: leaseLua + epoch.Whole(acquireLua, queueLua), PerRequest: 1, Grants: true},
	extendScript:    {Text: leaseLua + epoch.Whole(extendLua, queueLua), Renews: true},
	releaseScript:   {Text: leaseLua + epoch.Whole(releaseLua, queueLua), PerRequest: 1},
	breakScript:     {Text: leaseLua + queueLua + breakLua},
	downgradeScript: {Text: leaseLua + queueLua + downgradeLua, Grants: true},
}
