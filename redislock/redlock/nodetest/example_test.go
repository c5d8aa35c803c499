// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pawl-go/pawl/redislock/redlock/nodetest"
)

// A test of a node reads the requests one by one, sends each to the node, and compares what it
// answers.
func Example() {
	for line := range bytes.Lines(nodetest.Answers) {
		var recorded map[string]json.RawMessage
		if err := json.Unmarshal(line, &recorded); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
}
