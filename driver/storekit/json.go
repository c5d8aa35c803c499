// SPDX-License-Identifier: Apache-2.0

package storekit

import "encoding/json"

// JSON returns a record as JSON. A record has strings, numbers, booleans and times, so this cannot fail.
func JSON(record any) []byte {
	b, err := json.Marshal(record)
	if err != nil {
		return []byte("{}")
	}
	return b
}
