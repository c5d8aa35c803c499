// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"encoding/json"

	"github.com/pawl-go/pawl/driver"
)

// Signature returns JSON that says who changes a setting of a store, for the store's record: who, with
// this machine and process where who names none, and without the command line, which may be private.
func Signature(who driver.Holder) string {
	who = who.Filled()
	who.Command = ""
	by, _ := json.Marshal(who)
	return string(by)
}

// Signed reads a Signature. It returns nil if by is none.
func Signed(by string) *driver.Holder {
	var h driver.Holder
	if json.Unmarshal([]byte(by), &h) != nil || h == (driver.Holder{}) {
		return nil
	}
	return &h
}
