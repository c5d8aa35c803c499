// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl/driver/storekit"
)

// A store reads the URL that its users write, and refuses what it does not know.
func Example() {
	var timeout time.Duration
	var table string
	params := []storekit.Param{
		storekit.Set("timeout", &timeout, storekit.Duration),
		storekit.Set("table", &table, storekit.Text),
	}
	for _, text := range []string{"mystore://db:4000/?timeout=3s&table=locks", "mystore://db:4000/?tiemout=3s"} {
		u, err := storekit.ParseURL(text)
		if err == nil {
			err = storekit.ReadQuery(u.RawQuery, params...)
		}
		fmt.Println(timeout, table, err)
	}
	// Output:
	// 3s locks <nil>
	// 3s locks tiemout: there is no such parameter: did you mean timeout?
}
