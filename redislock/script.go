// SPDX-License-Identifier: Apache-2.0

package redislock

import _ "embed"

var (
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/extend.lua
	extendLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/pass.lua
	passLua string
	//go:embed lua/break.lua
	breakLua string
	//go:embed lua/downgrade.lua
	downgradeLua string
	//go:embed lua/all.lua
	allLua string
	//go:embed lua/check.lua
	checkLua string
)

// The scripts by their index in scripts.
const (
	acquireScript = iota
	extendScript
	releaseScript
	passScript
	breakScript
	downgradeScript
	allScript
)

var scripts = []string{
	commonLua + acquireLua, commonLua + extendLua, commonLua + releaseLua, commonLua + passLua, commonLua + breakLua,
	commonLua + downgradeLua, commonLua + allLua,
}
